// Draws the content of the element #data: tokens, and the weights of their pairs in each head.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { tokens, texts, weights } = data;
const numTokens = tokens.length;
const numLayers = weights.length;
const numHeads = weights[0].length;
const LEVELS = 255; // largest value of a weight
const THUMBNAIL = 64; // largest size of a thumbnail in pixels
const ROW = 24; // height of a token in pixels: --row in the style sheet
const SIDES = ["from", "to"];

const element = (id) => document.getElementById(id);
const [lists, view, canvas] = [SIDES.map(element), element("view"), element("canvas")];
const scheme = matchMedia("(prefers-color-scheme: dark)");

// Choices of the user. A token is { side, index }: side 0 attends, side 1 is attended to.
const state = { layer: 0, head: 0, hovered: null, pinned: null };
// For each side: indices of the tokens that are shown, and their elements by index.
let shown = [[], []];
let items = [[], []];

// Weights

const decoded = new Map();

/** Returns the weights of a head, a byte each, row by row. A row is a token that attends. */
function matrix(layer, head) {
  const key = layer * numHeads + head;
  if (!decoded.has(key)) {
    const text = atob(weights[layer][head]);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    decoded.set(key, bytes);
  }
  return decoded.get(key);
}

/** Formats a weight. Small weights have one more digit. */
const number = (level) => (level / LEVELS).toFixed(level < 0.1 * LEVELS ? 3 : 2);

// Tokens that are shown

function choose() {
  const filter = new FormData(element("controls")).get("texts");
  const hide = element("hide-special").checked;
  shown = [0, 1].map((side) =>
    [...tokens.keys()].filter(
      (index) =>
        !(hide && tokens[index].special) &&
        (filter === "all" || tokens[index].segment === Number(filter[side])),
    ),
  );
  for (const name of ["hovered", "pinned"]) {
    const token = state[name];
    if (token && !shown[token.side].includes(token.index)) state[name] = null;
  }
  items = [[], []];
  for (const side of [0, 1]) lists[side].replaceChildren(...shown[side].map((i) => item(side, i)));
  makeTabbable(shown[0].length ? items[0][shown[0][0]] : null);
}

const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "⏎") || "∅";

function bdi(text) {
  const node = document.createElement("bdi"); // keeps its own writing direction
  node.textContent = text;
  return node;
}

function item(side, index) {
  const token = tokens[index];
  const node = document.createElement("li");
  node.role = "option";
  node.tabIndex = -1;
  node.title = place(token);
  node.classList.toggle("special", token.special);
  node.append(bdi(visible(token.text)));
  node.dataset.side = side;
  node.dataset.index = index;
  items[side][index] = node;
  return node;
}

/** Describes the position of a token. */
function place({ text, segment, special, start, end }) {
  if (special) return "special token";
  const written = Array.from(texts[segment]).slice(start, end).join("").trim();
  const quoted = !written || written === text.trim() ? "" : `“\u2068${written}\u2069”, `; // like bdi
  const where = texts.length > 1 ? `text ${"AB"[segment]}, ` : "";
  return `${quoted}${where}characters ${start} to ${end}`;
}

// Drawing

function render() {
  const focus = state.pinned ?? state.hovered;
  const bytes = matrix(state.layer, state.head);
  element("head-title").textContent = `Layer ${state.layer + 1}, head ${state.head + 1}`;
  element("index").textContent = `weights[${state.layer}, ${state.head}]`;
  element("weakest-value").textContent = number(weakest());
  for (const node of element("grid").querySelectorAll("button")) {
    const chosen = node.dataset.layer == state.layer && node.dataset.head == state.head;
    node.ariaChecked = String(chosen);
    node.tabIndex = chosen ? 0 : -1;
  }
  mark(focus, bytes);
  element("readout").replaceChildren(...(focus ? words(focus, bytes) : summary(bytes)));
  draw();
}

const weakest = () => Number(element("weakest").value);

/** Returns the weight between a token and a token on the other side. */
const level = (bytes, { side, index }, other) =>
  side === 0 ? bytes[index * numTokens + other] : bytes[other * numTokens + index];

/** Marks the token in focus, and the other tokens by their weights with it. */
function mark(focus, bytes) {
  for (const side of [0, 1]) {
    for (const index of shown[side]) {
      const node = items[side][index];
      const isFocus = focus?.side === side && focus.index === index;
      const between = focus && focus.side !== side ? level(bytes, focus, index) : 0;
      const from = focus?.side === 0 ? focus.index : index;
      node.classList.toggle("focus", isFocus);
      node.classList.toggle("named", between >= weakest());
      node.classList.toggle("by-second", tokens[from].segment === 1);
      node.dataset.weight = number(between);
      node.style.setProperty("--strength", Math.sqrt(between / LEVELS));
      node.ariaSelected = String(isFocus && state.pinned !== null);
    }
  }
}

/** Describes the token in focus and the tokens with the strongest lines to it. */
function words(focus, bytes) {
  const others = shown[1 - focus.side];
  const level_ = (other) => level(bytes, focus, other);
  const best = [...others].sort((a, b) => level_(b) - level_(a)).slice(0, 6);
  const token = tokens[focus.index];
  const verb = focus.side === 0 ? " attends to " : " is attended to by ";
  const parts = [strong(visible(token.text)), ` (${place(token)})${verb}`];
  best.forEach((other, rank) => {
    parts.push(rank ? ", " : "", bdi(visible(tokens[other].text)), ` ${number(level_(other))}`);
  });
  if (focus.side === 0 && others.length < numTokens) {
    const sum = others.reduce((total, other) => total + level_(other), 0);
    parts.push(`; ${Math.round((100 * sum) / LEVELS)} % of its attention is shown`);
  }
  return [...parts, "."];
}

function strong(text) {
  const node = document.createElement("b");
  node.append(bdi(text));
  return node;
}

function summary(bytes) {
  let drawn = 0;
  for (const from of shown[0])
    for (const to of shown[1]) drawn += bytes[from * numTokens + to] >= weakest();
  const all = shown[0].length * shown[1].length;
  if (!drawn) return [`No weight is ${number(weakest())} or more. Lower the weakest line.`];
  return [
    `Lines for ${drawn.toLocaleString("en")} of ${all.toLocaleString("en")} weights, ` +
      `${number(weakest())} or more. Point at a token to see only its lines. Click to pin it.`,
  ];
}

const COLORS = ["--first", "--second", "--quiet"]; // lines from text A, from text B, of special tokens
const QUIET = 2;
const BANDS = 24; // number of line strengths; lines of the same strength are drawn together

/** Draws the lines that are visible at the view's scroll position. */
function draw() {
  const width = element("between").clientWidth;
  const height = Math.min(view.clientHeight, Math.max(shown[0].length, shown[1].length) * ROW);
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const colors = getComputedStyle(document.documentElement);
  const bytes = matrix(state.layer, state.head);
  const focus = state.pinned ?? state.hovered;
  const least = weakest();
  const paths = COLORS.map(() => Array.from({ length: BANDS }, () => new Path2D()));
  shown[0].forEach((from, row) => {
    const y = (row + 0.5) * ROW - view.scrollTop;
    shown[1].forEach((to, column) => {
      const strength = bytes[from * numTokens + to];
      if (strength < least) return;
      if (focus && focus.index !== (focus.side === 0 ? from : to)) return;
      const end = (column + 0.5) * ROW - view.scrollTop;
      if (Math.max(y, end) < 0 || Math.min(y, end) > height) return;
      const special = tokens[from].special || tokens[to].special;
      const color = special ? QUIET : tokens[from].segment;
      const path = paths[color][Math.floor((strength * BANDS) / (LEVELS + 1))];
      path.moveTo(0, y);
      path.bezierCurveTo(width * 0.4, y, width * 0.6, end, width, end);
    });
  });
  paths.forEach((bands, color) => {
    pen.strokeStyle = colors.getPropertyValue(COLORS[color]);
    bands.forEach((path, band) => {
      const strength = (band + 0.5) / BANDS;
      pen.globalAlpha = focus ? Math.sqrt(strength) : 0.06 + 0.7 * strength;
      if (color === QUIET) pen.globalAlpha /= 2;
      pen.lineWidth = focus ? 0.75 + 4 * strength : 0.75 + 1.5 * strength;
      pen.stroke(path);
    });
  });
}

// Thumbnails

function makeGrid() {
  const grid = element("grid");
  grid.style.setProperty("--heads", numHeads);
  const label = (text) => {
    const node = document.createElement("span");
    node.ariaHidden = "true";
    node.textContent = text;
    return node;
  };
  grid.append(label(""));
  for (let head = 0; head < numHeads; head++) grid.append(label(head + 1));
  for (let layer = 0; layer < numLayers; layer++) {
    grid.append(label(layer + 1));
    for (let head = 0; head < numHeads; head++) {
      const node = document.createElement("button");
      node.role = "radio";
      node.type = "button";
      node.ariaLabel = node.title = `Layer ${layer + 1}, head ${head + 1}`;
      Object.assign(node.dataset, { layer, head });
      node.append(document.createElement("canvas"));
      grid.append(node);
    }
  }
}

let drawing = 0; // number of the current round; older rounds stop

/** Draws all thumbnails, one layer at a time, so that the page stays responsive. */
function drawThumbnails() {
  const round = ++drawing;
  const color = hexColor(getComputedStyle(document.documentElement).getPropertyValue("--first"));
  const drawLayer = (layer) => {
    if (round !== drawing) return;
    for (const node of document.querySelectorAll(`#grid [data-layer="${layer}"]`))
      drawThumbnail(node.firstChild, matrix(layer, Number(node.dataset.head)), color);
    if (layer + 1 < numLayers) setTimeout(drawLayer, 0, layer + 1);
    else document.documentElement.dataset.ready = "";
  };
  drawLayer(0);
}

const hexColor = (text) => [1, 3, 5].map((at) => parseInt(text.trim().slice(at, at + 2), 16));

/** Draws a thumbnail. Opacity is the root of the largest weight in a pixel: most are small. */
function drawThumbnail(thumbnail, bytes, [red, green, blue]) {
  const [rows, columns] = shown;
  const height = (thumbnail.height = Math.max(1, Math.min(rows.length, THUMBNAIL)));
  const width = (thumbnail.width = Math.max(1, Math.min(columns.length, THUMBNAIL)));
  const greatest = new Uint8Array(width * height);
  rows.forEach((from, row) => {
    const line = Math.floor((row * height) / rows.length) * width;
    columns.forEach((to, column) => {
      const pixel = line + Math.floor((column * width) / columns.length);
      greatest[pixel] = Math.max(greatest[pixel], bytes[from * numTokens + to]);
    });
  });
  const image = new ImageData(width, height);
  greatest.forEach((value, pixel) => {
    image.data.set([red, green, blue, Math.sqrt(value * LEVELS)], 4 * pixel);
  });
  thumbnail.getContext("2d").putImageData(image, 0, 0);
}

// Input of the user

const tokenOf = (target) => {
  const node = target.closest?.("#view li");
  return node && { side: Number(node.dataset.side), index: Number(node.dataset.index) };
};

const same = (one, other) => one?.side === other?.side && one?.index === other?.index;

function hover(token) {
  if (same(token, state.hovered)) return;
  state.hovered = token;
  if (!state.pinned) render();
}

function pin(token) {
  state.pinned = same(token, state.pinned) ? null : token;
  render();
}

function makeTabbable(node) {
  for (const other of view.querySelectorAll('li[tabindex="0"]')) other.tabIndex = -1;
  if (node) node.tabIndex = 0;
}

function listen() {
  view.addEventListener("pointerover", (event) => hover(tokenOf(event.target)));
  view.addEventListener("pointerleave", () => hover(null));
  view.addEventListener("click", (event) => {
    const token = tokenOf(event.target);
    if (token) pin(token);
  });
  view.addEventListener("focusin", (event) => {
    const token = tokenOf(event.target); // null if the browser focuses the scroll box itself
    if (!token) return;
    makeTabbable(event.target);
    hover(token);
  });
  view.addEventListener("focusout", () => hover(null));
  view.addEventListener("keydown", walkTokens);
  view.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(view);

  element("grid").addEventListener("click", (event) => chooseHead(event.target.closest("button")));
  element("grid").addEventListener("keydown", walkHeads);
  element("weakest").addEventListener("input", render);
  element("controls").addEventListener("change", ({ target }) => {
    if (target === element("weakest")) return;
    choose();
    view.scrollTop = 0;
    render();
    drawThumbnails();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    state.pinned = state.hovered = null;
    render();
  });
  scheme.addEventListener("change", () => {
    draw();
    drawThumbnails();
  });
}

function chooseHead(node) {
  if (!node) return;
  state.layer = Number(node.dataset.layer);
  state.head = Number(node.dataset.head);
  node.focus();
  render();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function walkHeads(event) {
  const step = STEPS[event.key];
  if (!step) return;
  event.preventDefault();
  const layer = Math.min(Math.max(state.layer + step[0], 0), numLayers - 1);
  const head = Math.min(Math.max(state.head + step[1], 0), numHeads - 1);
  chooseHead(document.querySelector(`#grid [data-layer="${layer}"][data-head="${head}"]`));
}

/** Moves up and down in a column, left and right to the other column. Enter or space pins. */
function walkTokens(event) {
  const token = tokenOf(event.target);
  if (!token) return;
  const step = STEPS[event.key];
  if (step) {
    const side = Math.min(Math.max(token.side + step[1], 0), 1);
    const row = shown[token.side].indexOf(token.index) + step[0];
    const last = shown[side].length - 1;
    items[side][shown[side][Math.min(Math.max(row, 0), last)]]?.focus();
  } else if (event.key === "Enter" || event.key === " ") pin(token);
  else return;
  event.preventDefault();
}

/**
 * Reads a view from the address: #layer=3&head=5&from=7 (or &to=7), with indices as in Python.
 * Without it, starts with the view that the page proposes.
 */
function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1) || data.start);
  const index = (name, size) => {
    const value = Number(wanted.get(name) ?? NaN);
    return Number.isInteger(value) && value >= 0 && value < size ? value : null;
  };
  state.layer = index("layer", numLayers) ?? 0;
  state.head = index("head", numHeads) ?? 0;
  for (const side of [0, 1]) {
    const token = index(SIDES[side], numTokens);
    if (token !== null) state.pinned = { side, index: token };
  }
}

function describe() {
  document.title = `Attention: ${texts[0]}`;
  element("about").textContent = `${data.title}, ${numTokens} tokens`;
  if (data.cut) element("about").textContent += ` (${data.cut} more were cut off)`;
  texts.forEach((text, segment) => {
    const line = document.createElement("div");
    if (texts.length > 1) {
      const name = document.createElement("b");
      name.textContent = "AB"[segment];
      name.className = segment ? "second" : "first";
      line.append(name);
    }
    line.append(bdi(text));
    element("texts").append(line);
  });
  element("filter").hidden = texts.length < 2;
  // Choose the limit so that equal attention to all tokens draws no line.
  element("weakest").value = Math.min(Math.max(Math.round((1.5 * LEVELS) / numTokens), 1), 8);
}

describe();
makeGrid();
readAddress();
choose();
listen();
render();
drawThumbnails();
