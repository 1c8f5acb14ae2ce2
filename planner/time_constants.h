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
  // Bytes per token and vocabulary entry around logits and loss. Fit; counting copies gives 16
  // (planner paper, 2) at the full bandwidth that such kernels do not reach.
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
  // Measured all-reduce over NVLink: 235 of 300 on A100, 368 of 450 on H200 (planner paper, 7.3).
  double link_share = 0.8;
  // Without NVLink each byte crosses the host bridge twice. Assumed.
  double pcie_share = 0.4;
  double network_share = 0.8;  // "expect about 80 % of spec" (planner paper, 7.3)
  // Gradient reduction under the last backward pass: 70 % of it is hidden (planner paper, 7.3).
  double reduce_exposed = 0.3;

  // Eager Python code against the tuned trainer: several kernels for each norm, rotary embedding
  // and activation, dropout, fp32 copies. Factor on elementwise_bytes; derived from the public
  // profile of a 7B model under transformers (one A100, LoRA, 2,048-8,192 tokens), as is the next.
  double eager_elementwise = 2.2;
  double adapter_bytes = 90;  // per adapted matrix: dropout, cast, two thin products, addition
  // CPU time of starting one kernel from eager Python, and kernels of one pass through a block; the
  // same profile at 256 tokens, where nothing else counts (1.2 ms per pass and block with
  // adapters).
  double launch_seconds = 20e-6;
  double eager_kernels = 45;
  double adapter_kernels = 6;  // per adapted matrix
  double tuned_kernels = 25;   // fused norms, attention and activation; started without Python
  double tuned_launch_seconds = 8e-6;
  // Scores that eager attention writes and reads back per token, head and other token: product,
  // scale and mask, softmax in fp32, dropout, and the same again backward. Counted.
  double eager_score_bytes = 40;

  // Host: bytes per parameter of a CPU Adam step and the share of memory bandwidth it reaches
  // (planner paper, 7.3), and of what the link to the GPU carries.
  double host_adam_bytes = 28;
  double host_memory_share = 0.6;
  double host_link_share = 0.8;
};

}  // namespace launch
