// Times llama.cpp (npm node-llama-cpp) on a GGUF language model: load, prefill, decode; one JSON object on stdout.
// Usage: node llama_text.mjs MODEL.gguf [prompt tokens] [generated tokens] [threads], from where the npm package is installed.
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { readFileSync } from 'node:fs'

const require = createRequire(path.join(process.cwd(), 'x.js'))
const entry = require.resolve('node-llama-cpp')
const { getLlama } = await import(pathToFileURL(entry))
const [model_path, prompt = '512', generate = '64', threads = '2'] = process.argv.slice(2)
const n_prompt = Number(prompt), n_generate = Number(generate)

const root = entry.slice(0, entry.lastIndexOf('node-llama-cpp') + 'node-llama-cpp'.length)
const version = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')).version
const start = performance.now()
const llama = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) })
const model = await llama.loadModel({ modelPath: path.resolve(model_path), gpuLayers: 0, useMmap: true })
const context = await model.createContext({ contextSize: n_prompt + n_generate + 16, batchSize: 512, threads: Number(threads), sequences: 1 })
const sequence = context.getSequence()
const load_ms = performance.now() - start

// Plain ids, the same every time.
let state = 12345
const token = () => { state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff; return 300 + state % 100000 }
const tokens = (n) => Array.from({ length: n }, token)
// Decodes n tokens greedily behind `first`, and whatever they are.
async function decode(first, n) {
  let done = 0, begin = 0
  for await (const _ of sequence.evaluate([first], { temperature: 0, yieldEogToken: true })) {
    if (done === 0) begin = performance.now() // the first one pays for the prompt's last row
    if (done++ === n) break
  }
  return (done - 1) / (performance.now() - begin) * 1e3
}

await decode(token(), 1)
const first_token_ms = performance.now() - start
await sequence.clearHistory()
const feed = performance.now()
await sequence.evaluateWithoutGeneratingNewTokens(tokens(n_prompt))
const prefill_tok_s = n_prompt / (performance.now() - feed) * 1e3
await sequence.clearHistory()
const decode_tok_s = await decode(token(), n_generate)
const peak = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))
console.log(JSON.stringify({ package: 'node-llama-cpp', version, build: llama.llamaCppRelease?.release ?? null, load_ms, first_token_ms, prefill_tok_s, decode_tok_s,
                             peak_rss_mb: Number(peak[1]) * 1024 / 1e6 }))
process.exit(0)
