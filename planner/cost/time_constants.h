// The few figures that turn shapes and data sheets into seconds, each with its source.
#pragma once

namespace launch {

// "Fit" means: least squares over shared reference rows of one tuned FSDP trainer on A100 and H100,
// by tests/accuracy/throughput_cv.py; docs/planner-accuracy.md has the errors on rows left out.
struct TimeConstants {
  // A multiprocessor spends 1/tensor rate + 1/this clocks on an operation of a large matrix
  // product: what surrounds the tensor cores (loads, epilogue, clocks lost to power) costs the same
  // per operation on every generation, so faster tensor cores are used worse. Fit.
  double matmul_overhead = 7380;
  // The same for attention kernels, where exponentials and shared memory dominate. Fit.
  double attention_overhead = 915;
  // Bytes that element-wise kernels move per token, layer and element of the hidden state, forward
  // and backward, in 16 bits and with 12 hidden^2 parameters in a block. Fit.
  double elementwise_bytes = 236;
  // Bytes per token and vocabulary entry around logits and loss. Fit; counting the copies
  // gives 16 at the full bandwidth, which such kernels do not reach.
  double logit_bytes = 36;
  // Recomputed forward passes run faster than the average pass that FLOPs are counted for. Fit.
  double recompute_cost = 0.77;
  // Share of gathering traffic (ZeRO-3, FSDP) that costs time although computation overlaps it.
  // Fit.
  double gather_exposed = 0.78;
  // Seconds one rank adds to each collective of a ring. Fit.
  double hop_seconds = 3.55e-6;

  // Share of the data sheet's memory bandwidth that kernels reach (STREAM-like copies: 80-90 %).
  double memory_share = 0.85;
  // Share of the link's GB/s that an all-reduce over NVLink reached in public measurements
  // (stas00/ml-engineering): 235 of 300 on A100, 368 of 450 on H200.
  double link_share = 0.8;
  // Share of PCIe's GB/s that a collective reaches without NVLink, where each byte crosses the host
  // bridge twice. Assumed.
  double pcie_share = 0.4;
  double network_share = 0.8;  // share of the adapters' data sheet; assumed
  // Share of the gradient reduction that costs time: 70 % hides under the last backward pass.
  // Assumed.
  double reduce_exposed = 0.3;

  // Kernels of eager code are short and do several instructions for each element: beyond this many
  // bytes per clock a multiprocessor does not keep up, whatever the memory could. Eager layers of
  // BERT, GPT-2 and T5 on V100, A100, A6000, 3090 Ti and 4090 (mli/transformers-benchmarks) need
  // the same bytes only so: an A100 with twice the bandwidth is no faster than a 3090 Ti in them.
  double eager_bytes_per_clock = 4.8;
  // Factor on elementwise_bytes, bytes per adapted matrix (dropout, cast, two thin products,
  // addition), and bytes around the logits (counted), at that rate. From the same
  // table, and from the public profile of LoRA under transformers on an A100 (1.8B to 14B).
  double eager_elementwise = 0.8;
  double adapter_bytes = 42;
  double eager_logit_bytes = 16;
  // CPU time of starting one kernel from eager Python, and kernels of one pass through a block; the
  // same profile at 256 tokens, where nothing else counts (1.7 ms per pass and block with
  // adapters).
  double launch_seconds = 20e-6;
  double eager_kernels = 45;
  double adapter_kernels = 6;  // per adapted matrix
  double tuned_kernels = 25;   // fused norms, attention and activation; started without Python
  double tuned_launch_seconds = 8e-6;
  // Bytes per score (token, head, other token) that eager attention writes and reads back, forward
  // and backward: product, scale and mask, softmax, dropout. GPT-2 and T5 layers of that table.
  double eager_score_bytes = 60;

  // Host: bytes per parameter of a CPU Adam step (counted: m, v and fp32 weights read and written,
  // gradient, 16-bit copy), the share of the memory bandwidth that it reaches, and the share of
  // what the link to the GPU carries. Both assumed.
  double host_adam_bytes = 28;
  double host_memory_share = 0.6;
  double host_link_share = 0.8;
};

}  // namespace launch
