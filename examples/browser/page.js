// The page: a card for each model.

import { Model, Problem, readFile } from "./model.js";

const MOST_LABELS = 10; // a card shows at most this many labels
const TASKS = {
  classifier: { title: "Classify", action: "Classify", invitation: "Type or paste a text" },
  "fill-mask": {
    title: "Fill the mask",
    action: "Fill",
    invitation: "Type a text with [MASK] where a word is missing",
  },
};

const cards = document.querySelector("main");

try {
  const folders = await json("models.json");
  const options = await Promise.all(folders.map((folder) => json(`${folder}/options.json`)));
  cards.replaceChildren(...folders.map((folder, index) => card(folder, options[index])));
  for (const element of cards.children) await element.load(); // one by one: the first is ready soon
} catch (error) {
  cards.replaceChildren(create("p", "problem", sentence(error)));
}

async function json(path) {
  return (await readFile(path)).json();
}

function card(folder, options) {
  const element = document.querySelector("template").content.cloneNode(true).firstElementChild;
  const part = (name) => element.querySelector(name);
  const [form, text, button, insert] = ["form", "textarea", ".run", ".insert"].map(part);
  const [status, answers] = [".status", ".answers"].map(part);
  const { title, action, invitation } = TASKS[options.task];
  const mask = options.special_tokens.mask;
  let model;

  const say = (words, kind = "") => {
    status.textContent = words;
    status.className = `status ${kind}`;
  };

  const answer = async () => {
    answers.replaceChildren();
    button.disabled = true;
    say("Running …");
    try {
      const answer = await model.answer(text.value);
      answers.replaceChildren(...lists(answer.answers, options));
      say(...summary(answer));
    } catch (error) {
      say(sentence(error), "problem");
    }
    button.disabled = false;
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!button.disabled) answer();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit(button);
    }
  });

  insert.addEventListener("click", () => {
    text.setRangeText(mask, text.selectionStart, text.selectionEnd, "end");
    text.focus();
  });

  part("h2").textContent = title;
  part(".about").textContent =
    `${options.parameters} parameters, texts of up to ${options.sequence_length - 2} tokens`;
  text.placeholder = invitation.replace("[MASK]", mask);
  text.setAttribute("aria-label", text.placeholder);
  button.textContent = action;
  insert.textContent = `Insert ${mask}`;
  insert.hidden = options.task !== "fill-mask";
  say(`Loading ${options.megabytes} MB …`);

  element.load = async () => {
    try {
      model = await Model.load(folder, options);
      button.disabled = false;
      say("Ready.");
    } catch (error) {
      say(sentence(error), "problem");
    }
  };
  return element;
}

// Makes a list of bars for each list of answers, and highlights the chosen labels.
function lists(answers, { task, problem_type: type }) {
  return answers.map((rows, index) => {
    const list = create("ol");
    if (answers.length > 1) list.append(create("li", "heading", `Mask ${index + 1}`));
    if (type === "regression") {
      list.append(...rows.map(({ label, score }) => bar(label, score, 0, score.toFixed(3))));
      return list;
    }
    const sorted = [...rows].sort((a, b) => b.score - a.score);
    const shown = sorted.slice(0, MOST_LABELS).map(({ label, score }, rank) => {
      const chosen = type === "multi_label" ? score >= 0.5 : rank === 0;
      return bar(label, score, score, `${(100 * score).toFixed(1)} %`, chosen && "chosen");
    });
    const hidden = sorted.length - shown.length;
    list.append(...shown, ...(hidden ? [create("li", "heading", `and ${hidden} more`)] : []));
    return list;
  });
}

function bar(label, score, share, written, kind = "") {
  const row = create("li", kind || "");
  const [track, fill, value] = [create("span", "track"), create("span", "fill"), create("data")];
  fill.style.width = `${100 * share}%`;
  track.append(fill);
  value.value = String(score);
  value.textContent = written;
  row.append(create("span", "label", label), track, value);
  return row;
}

function summary({ tokens, kept, milliseconds }) {
  const time = `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return kept < tokens
    ? [`Cut: the text has ${tokens} tokens, the model read the first ${kept}. ${time}`, "warning"]
    : [`${tokens} ${tokens === 1 ? "token" : "tokens"}, ${time}`];
}

function sentence(error) {
  return error instanceof Problem ? error.message : `Something went wrong: ${error.message ?? error}`;
}

function create(name, kind = "", text = "") {
  const element = document.createElement(name);
  element.className = kind;
  element.textContent = text;
  return element;
}
