// Opens a page that build.py wrote, types texts, and prints what it answers as JSON.
//
// node drive.mjs '{"url": ..., "executable": ..., "texts": [[card, text], ...],
//                  "screenshot": path or null, "dark": bool}'

import { createRequire } from "node:module";

const packages = new URL("../../../examples/browser/package.json", import.meta.url);
const { chromium } = createRequire(packages)("playwright-core");
const { url, executable, texts, screenshot, dark } = JSON.parse(process.argv[2]);
const seen = { requests: [], complaints: [], loaded: [], answers: [] };

const browser = await chromium.launch({ executablePath: executable });
try {
  const page = await browser.newPage({
    viewport: { width: 820, height: 600 },
    colorScheme: dark ? "dark" : "light",
  });
  page.setDefaultTimeout(120_000);
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error") seen.complaints.push(message.text());
  });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  await page.goto(url);
  const settled = () => {
    if (document.querySelector(".start")) return false; // what stands there until the page runs
    const words = [...document.querySelectorAll(".status, main > .problem")];
    return words.length && words.every((p) => p.textContent && !p.textContent.endsWith("…"));
  };
  await page.waitForFunction(settled);
  seen.loaded = await page.locator("main > .problem, .status").allTextContents();
  for (const [card, text] of texts) {
    const section = page.locator("section").nth(card);
    await section.locator("textarea").fill(text);
    await section.locator(".run").click();
    await page.waitForFunction(settled);
    const lists = await section.locator("ol").evaluateAll((all) =>
      all.map((list) =>
        [...list.querySelectorAll("li:not(.heading)")].map((row) => ({
          label: row.querySelector(".label").textContent,
          score: Number(row.querySelector("data").value),
          chosen: row.classList.contains("chosen"),
        })),
      ),
    );
    seen.answers.push({ status: await section.locator(".status").textContent(), lists });
  }
  if (screenshot) await page.screenshot({ path: screenshot, fullPage: true });
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(seen));
