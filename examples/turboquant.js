// turboquant-mse in JavaScript, held against the golden vectors. Needs nothing but node.
//
//   kvassay vectors --exec "node turboquant.js" --group encode --group decode --group scores
//
// It is called as  turboquant.js VECTORS.json ANSWERS.json  and also writes ANSWERS.json.bin.
// --bug=1, 2 or 3 before the files puts in a fault that the vectors find: the rotation where its
// inverse was meant, codes read one place late, queries beyond a tile of 32 scored as its first.
"use strict";
const fs = require("fs");
const path = require("path");

const words = process.argv.slice(2);
const bug = words[0]?.startsWith("--bug=") ? Number(words.shift().slice(6)) : 0;
const [asked, answers] = words;
if (!answers) {
  console.error("usage: turboquant.js [--bug=N] VECTORS.json ANSWERS.json");
  process.exit(2);
}

const TYPES = { float32: Float32Array, int8: Int8Array, uint8: Uint8Array };
const file = JSON.parse(fs.readFileSync(asked, "utf8"));
const data = fs.readFileSync(path.join(path.dirname(asked), file.data));

function read({ dtype, shape, offset }) {
  const Type = TYPES[dtype];
  const count = shape.reduce((a, b) => a * b, 1);
  const bytes = data.subarray(offset, offset + count * Type.BYTES_PER_ELEMENT);
  return new Type(Uint8Array.from(bytes).buffer);
}

// The codec. Everything random is given: the signs, and the table.

function transform(x) { // Walsh-Hadamard in natural order, over sqrt(d)
  const y = Float32Array.from(x);
  for (let half = 1; half < y.length; half *= 2) {
    for (let i = 0; i < y.length; i++) {
      if (i & half) continue;
      const [a, b] = [y[i], y[i + half]];
      y[i] = a + b;
      y[i + half] = a - b;
    }
  }
  return y.map((value) => value / Math.sqrt(y.length));
}

const times = (x, signs) => x.map((value, i) => value * signs[i]);
const rotate = (x, signs) => transform(times(x, signs));
const unrotate = (y, signs) => (bug === 1 ? rotate(y, signs) : times(transform(y), signs));
const rows = (x, d) => Array.from({ length: x.length / d }, (_, i) => x.subarray(i * d, i * d + d));

function nearest(value, levels) {
  let k = 0;
  while (k + 1 < levels.length && value >= (levels[k] + levels[k + 1]) / 2) k++;
  return k;
}

function encode(x, signs, levels) {
  const norm = Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
  const y = rotate(x.map((value) => (norm > 0 ? value / norm : 0)), signs);
  return { norm, indices: Uint8Array.from(y, (value) => nearest(value, levels)) };
}

function look(indices, levels) {
  const d = indices.length;
  return Float32Array.from(indices, (_, i) => levels[indices[bug === 2 ? (i + d - 1) % d : i]]);
}

function decode(indices, norm, signs, levels) {
  return unrotate(look(indices, levels), signs).map((value) => value * norm);
}

function scores(q, keys, norms, signs, levels) { // the query is rotated, not each key
  const rotated = rotate(q, signs);
  const dot = (y) => y.reduce((sum, value, i) => sum + value * rotated[i], 0);
  return Array.from(keys, (indices, j) => dot(look(indices, levels)) * norms[j]);
}

// From the inputs of a vector to its outputs.

const GROUPS = {
  encode({ x, signs, levels }, d) {
    const codes = rows(x, d).map((row) => encode(row, signs, levels));
    return {
      indices: ["uint8", [codes.length, d], codes.flatMap((code) => [...code.indices])],
      norms: ["float32", [codes.length], codes.map((code) => code.norm)],
    };
  },
  decode({ indices, norms, signs, levels }, d) {
    const decoded = rows(indices, d).map((row, j) => decode(row, norms[j], signs, levels));
    return { x: ["float32", [norms.length, d], decoded.flatMap((row) => [...row])] };
  },
  scores({ q, indices, norms, signs, levels }, d) {
    const [queries, keys] = [rows(q, d), rows(indices, d)];
    const query = (i) => queries[bug === 3 ? i % 32 : i];
    const found = queries.map((_, i) => scores(query(i), keys, norms, signs, levels));
    return { scores: ["float32", [queries.length, norms.length], found.flat()] };
  },
};

const written = [];
let end = 0;

function put([dtype, shape, values]) {
  const bytes = Buffer.from(TYPES[dtype].from(values).buffer);
  const offset = end;
  written.push(bytes);
  end += bytes.length;
  return { dtype, shape, offset };
}

function answer({ id, parameters, inputs }) {
  const { kind, dim, rotation, scale } = parameters;
  const mine = kind === "turboquant-mse" && !rotation && !scale && (dim & (dim - 1)) === 0;
  if (!mine || !GROUPS[file.group]) {
    return { id, skipped: "only turboquant-mse at powers of two here" };
  }
  const named = (object, each) =>
    Object.fromEntries(Object.entries(object).map(([name, value]) => [name, each(value)]));
  return { id, outputs: named(GROUPS[file.group](named(inputs, read), dim), put) };
}

const all = file.vectors.map(answer);
fs.writeFileSync(`${answers}.bin`, Buffer.concat(written));
const beside = `${path.basename(answers)}.bin`;
fs.writeFileSync(answers, JSON.stringify({ data: beside, answers: all }));
