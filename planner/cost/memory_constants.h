// The few constants of the memory model that no formula gives, each with its source or its fit.
#pragma once

namespace launch {

// "Fitted" means: fitted to shared public measurements of the kind docs/planner-accuracy.md
// describes, where the error of leaving a source out is stated. All others are facts of the code
// that runs, with the reason beside them.
struct MemoryConstants {
  // Bytes per (token, vocabulary entry) while the loss is computed.
  double logits_eager = 16;    // fp32 logits, shifted copy, log-softmax and gradient: 4 x 4
  double logits_half = 8;      // the same four in 16 bits: a model run without autocast
  double logits_fused = 10;    // 16-bit logits 2, log-softmax 4, gradient 4
  double logits_copied = 14;   // as fused, and an fp32 copy of the logits
  double logits_kernel = 4;    // flash-attn's cross entropy, one kernel: 16-bit logits, gradient
  double logits_compiled = 6;  // 16-bit logits and gradient, the rest in one pass; fitted
  double logits_chunked = 2;   // 16-bit logits; a chunk in fp32 is small beside them; fitted
  // Composer keeps a batch's outputs until the next one, and measures them after the backward pass
  // under autocast: logits in 16 bits, an fp32 copy and log-softmax (Trainer._eval_train_metrics).
  double logits_held = 2;
  double logits_metrics = 10;

  // Elements of width `hidden` that a block keeps besides attention and MLP.
  double norm_eager = 8;  // per norm: fp32 input 2, normalised 1, output 1; two norms
  double norm_fused = 5;  // inputs and outputs of two norms, dropout masks (arXiv 2205.05198)
  double norm_plain = 4;  // inputs and outputs alone: 16-bit norms, no dropout (llm-foundry's MPT)
  double norm_amp = 4;    // autocast adds: fp32 inputs of norms 2, a cast for each of q, k, v 2
  // Elements of the MLP's width kept: gated: gate, activation, up, product; plain: in and out of
  // the activation. A compiled block recomputes the pointwise ones.
  double mlp_gated = 4;
  double mlp_gated_compiled = 3;
  double mlp_plain = 2;

  // Bytes per attention score kept (batch x heads x seq^2) without flash attention.
  double scores_fp32 = 9;  // softmax 4, after dropout 4, mask 1
  double scores_amp = 8;   // softmax in fp32 4, 16-bit copy 2, mask 1, mean of with and without
  double scores_half = 5;  // arXiv 2205.05198: softmax 2, after dropout 2, mask 1

  // Overheads.
  double context_gib = 0.9;         // A100: 0.47 loaded lazily, 0.92 at once (ml-engineering)
  double context_volta_gib = 1.31;  // 1343 MiB, transformers' memory anatomy page
  double distributed_gib = 1.0;     // torch.distributed and NCCL (ml-engineering: 1-2)
  double cublas_gib = 0.03;         // cuBLAS workspace: 4096 x 2 x 8 + 16 x 8 KiB (torch docs)
  double fragmentation = 0.12;      // of the dynamic part, in reserved memory; bigscience logs
  double variable_length = 1.6;     // of logits and one block, sequences of every length; fitted
  double typical_sample = 3000;     // tokens; longer caps are seldom reached; fitted

  // DeepSpeed.
  double bucket_factor = 4.5;        // overlap_comm, transformers' DeepSpeed page
  double bucket_deepspeed = 5e8;     // default of reduce_bucket_size and allgather_bucket_size
  double bucket_hf = 2e8;            // the figure of transformers' example configurations
  double sub_group = 1e9;            // default of sub_group_size: elements stepped at once
  double sub_group_bytes = 12;       // fp32 gradient 4 and two temporaries of Adam; fitted
  double max_live_parameters = 1e9;  // default of stage3_max_live_parameters

  double host_buffers = 1.5;  // factor of DeepSpeed's own estimator functions
  double process_gib = 2.0;   // a Python process with torch and CUDA libraries, our guess

  // Figures of tools that say neither what they measured nor in which unit: nvidia-smi's process
  // memory passed on as GB of 1e9 bytes; fitted (1.0 and this are the choices).
  double unstated_unit = 1.0737;

  double four_bit = 0.53;  // bytes per weight with the scales of blocks of 64 (bitsandbytes, GPTQ)

  // Relative standard errors of the parts, for the interval.
  double state_error = 0.03;
  double dynamic_error = 0.20;
  double reserve_error = 0.45;
};

}  // namespace launch
