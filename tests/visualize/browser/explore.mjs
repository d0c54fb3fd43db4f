// Opens a page of attention, does what a user does, and prints what is then seen, as JSON.
//
// node explore.mjs '{"url": ..., "executable": ..., "dark": bool, "steps": [[action, ...], ...],
//                    "screenshot": path or null}'
//
// Actions: ["hover", side, index], ["click", side, index], ["head", layer, head], ["leave"],
// ["choose", text of a label], ["press", key], ["wheel", pixels]; sides are "from" and "to".

import { createRequire } from "node:module";

const packages = new URL("../../../examples/browser/package.json", import.meta.url);
const { chromium } = createRequire(packages)("playwright-core");
const { url, executable, dark, steps, screenshot } = JSON.parse(process.argv[2]);
const seen = { requests: [], complaints: [], states: [] };

/** Runs in the page. */
function state() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((node) => node.textContent);
  const canvas = document.getElementById("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return {
    title: document.getElementById("head-title").textContent,
    readout: document.getElementById("readout").textContent,
    from: texts("#from li"),
    to: texts("#to li"),
    focus: texts("#view li.focus"),
    pinned: texts('#view [aria-selected="true"]'),
    named: all("#view li.named").map((node) => [Number(node.dataset.index), node.dataset.weight]),
    head: all('#grid [aria-checked="true"]').map((node) => node.ariaLabel),
    active: document.activeElement.textContent,
    scrolled: document.getElementById("view").scrollTop,
    ink: pixels.reduce((count, value, at) => count + (at % 4 === 3 && value > 0), 0),
  };
}

const browser = await chromium.launch({ executablePath: executable });
try {
  const page = await browser.newPage({
    viewport: { width: 1280, height: 800 },
    colorScheme: dark ? "dark" : "light",
  });
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error") seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  const start = performance.now();
  await page.goto(url);
  const frame = page.frames().at(-1); // within a notebook, the page is a frame
  await frame.waitForSelector("html[data-ready]", { state: "attached" });
  seen.seconds = (performance.now() - start) / 1000;

  const token = (side, index) => frame.locator(`#${side} li[data-index="${index}"]`);
  const actions = {
    hover: (side, index) => token(side, index).hover(),
    click: (side, index) => token(side, index).click(),
    head: (layer, head) =>
      frame.locator(`#grid [data-layer="${layer}"][data-head="${head}"]`).click(),
    leave: () => page.mouse.move(2, 2),
    choose: (text) => frame.locator("#controls label", { hasText: text }).click(),
    press: (key) => page.keyboard.press(key),
    wheel: (pixels) => page.mouse.wheel(0, pixels),
  };
  seen.states.push(await frame.evaluate(state));
  for (const [action, ...values] of steps) {
    await actions[action](...values);
    await frame.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done))));
    seen.states.push(await frame.evaluate(state));
  }
  if (screenshot) await page.screenshot({ path: screenshot });
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(seen));
