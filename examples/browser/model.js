// Runs the model in a folder that build.py wrote: model.onnx, vocab.txt, options.json and
// characters.json.

import * as ort from "./ort/ort.wasm.min.mjs";
import { WordPiece } from "./tokenizer.js";

const BEST = 5; // tokens for each mask

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;

// An error whose message the page shows.
export class Problem extends Error {}

export async function readFile(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Problem(`${path} could not be fetched: is the server still running?`);
  }
  if (!response.ok) {
    throw new Problem(`${path} is missing (${response.status}): write the page again with build.py.`);
  }
  return response;
}

export class Model {
  #options;
  #tokenizer;
  #session;

  // options: the content of options.json.
  static async load(folder, options) {
    const read = (name) => readFile(`${folder}/${name}`);
    const model = new Model();
    model.#options = options;
    const vocabulary = await (await read("vocab.txt")).text();
    const characters = await (await read("characters.json")).json();
    model.#tokenizer = new WordPiece(vocabulary, options, characters);
    const bytes = await (await read("model.onnx")).arrayBuffer();
    try {
      model.#session = await ort.InferenceSession.create(new Uint8Array(bytes));
    } catch (error) {
      throw new Problem(`${folder}/model.onnx could not be opened: ${error.message}`);
    }
    return model;
  }

  // Returns the model's answers to a text:
  //   answers: lists of { label, score }. A classifier has one list with every label. Fill-mask
  //     has one list for each mask, with the most likely tokens in order;
  //   tokens: number of tokens of the text;
  //   kept: number of tokens that the model read;
  //   milliseconds: time of tokenizing and running.
  // Throws a Problem if the text is empty or lacks a mask.
  async answer(text) {
    const fills = this.#options.task === "fill-mask";
    const { cls, separator, mask } = this.#tokenizer;
    const started = performance.now();
    const ids = this.#tokenizer.tokenize(text, { allowSpecialTokens: fills });
    if (!ids.length) throw new Problem("There is nothing to read: type a text.");
    const kept = ids.slice(0, this.#options.sequence_length - 2);
    const tokens = [cls.id, ...kept, separator.id];
    const masks = tokens.flatMap((id, position) => (fills && id === mask.id ? [position] : []));
    if (fills && !masks.length) {
      const where = ids.includes(mask.id) ? ` within the first ${kept.length} tokens` : "";
      throw new Problem(`There is no ${mask.token}${where}: write it where a word is missing.`);
    }
    const outputs = await this.#run(tokens);
    const answers = fills ? this.#likeliest(outputs, masks) : [this.#labeled(outputs)];
    const milliseconds = performance.now() - started;
    return { answers, tokens: ids.length, kept: kept.length, milliseconds };
  }

  async #run(tokens) {
    const shape = [1, tokens.length];
    const inputs = {
      token_ids: Int32Array.from(tokens),
      segment_ids: new Int32Array(tokens.length),
      padding_mask: new Int32Array(tokens.length).fill(1),
    };
    const named = this.#session.inputNames.map((name) => [
      name,
      new ort.Tensor("int32", inputs[name], shape),
    ]);
    return this.#session.run(Object.fromEntries(named));
  }

  #labeled({ scores }) {
    return this.#options.labels.map((label, index) => ({ label, score: scores.data[index] }));
  }

  #likeliest({ logits, mlm_logits: besideOthers }, masks) {
    const { data, dims } = logits ?? besideOthers; // [1, tokens, at least the vocabulary]
    const size = this.#tokenizer.tokens.length;
    return masks.map((position) => {
      const start = position * dims[2];
      const scores = softmax(data.subarray(start, start + size));
      const order = [...scores.keys()].sort((a, b) => scores[b] - scores[a]);
      return order
        .slice(0, BEST)
        .map((id) => ({ label: this.#tokenizer.tokens[id], score: scores[id] }));
    });
  }
}

function softmax(logits) {
  const highest = logits.reduce((a, b) => Math.max(a, b));
  const powers = Float64Array.from(logits, (logit) => Math.exp(logit - highest));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / sum);
}
