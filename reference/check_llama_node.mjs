// Runs llama.cpp (npm @fugood/llama.node) on the pair that gguf_pair.py wrote and compares its greedy ids with ours.
// Fails on a difference where our margin is above 1e-3, except with blocks_*: that engine resizes the overview by
// another rule, so those lines only inform. Usage: node check_llama_node.mjs FOLDER, from where the npm package is installed.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'x.js'))
const { loadModel } = require('@fugood/llama.node')
const folder = path.resolve(process.argv[2])
const cases = JSON.parse(readFileSync(path.join(folder, 'expected.json'), 'utf8'))

const context = await loadModel({
  model: path.join(folder, 'model.gguf'), n_ctx: 2048, n_batch: 2048, n_ubatch: 2048, n_threads: 2, n_gpu_layers: 0, n_parallel: 1,
  flash_attn_type: 'off', cache_type_k: 'f32', cache_type_v: 'f32',
})
if (!context.initMultimodal({ path: path.join(folder, 'mmproj.gguf'), use_gpu: false })) throw new Error('mmproj did not load')

let failed = 0
for (const c of cases) {
  const result = await context.completion({
    prompt: c.prompt, media_paths: c.files, n_predict: c.token_ids.length, temperature: 0, top_k: 1, seed: 1, ignore_eos: true,
    penalty_repeat: 1, penalty_freq: 0, penalty_present: 0, n_probs: 0,
  })
  const ids = [...result.text.matchAll(/<t(\d+)>|\n/g)].map((m) => (m[1] === undefined ? c.newline : Number(m[1])))
  let same = 0
  while (same < c.token_ids.length && ids[same] === c.token_ids[same]) same++
  const all = same === c.token_ids.length
  if (!all && !c.seams && c.margins[same] > 1e-3) failed++
  const where = all ? '' : ` (ours ${c.token_ids[same]}, theirs ${ids[same]}, our margin there ${c.margins[same].toFixed(5)})`
  console.log(`${c.question} [${c.pictures}]: prompt tokens ours ${c.n_prompt}, theirs ${result.tokens_evaluated - result.tokens_predicted}; ${same} of ${c.token_ids.length} ids equal${where}`)
}
await context.release()
process.exit(failed ? 1 : 0)
