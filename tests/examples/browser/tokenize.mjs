// node tokenize.mjs FOLDER: reads { texts, allowSpecialTokens } as JSON, prints the texts' ids.

import { readFileSync } from "node:fs";
import { WordPiece } from "../../../examples/browser/tokenizer.js";

const file = (name) => readFileSync(`${process.argv[2]}/${name}`, "utf-8");
const [options, characters] = ["options.json", "characters.json"].map((n) => JSON.parse(file(n)));
const tokenizer = new WordPiece(file("vocab.txt"), options, characters);
const { texts, allowSpecialTokens } = JSON.parse(readFileSync(0, "utf-8"));
const ids = texts.map((text) => tokenizer.tokenize(text, { allowSpecialTokens }));
process.stdout.write(JSON.stringify(ids));
