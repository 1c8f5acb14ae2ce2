#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr Snippet kSnippets[] = {
    {"torch_cpu_only",
     "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"},
    {"lib_abi_mismatch", "ImportError: numpy.core.multiarray failed to import"},
    {"lib_abi_mismatch",
     "Traceback (most recent call last):\n  File \"/v/bitsandbytes/cextension.py\", line 70, in "
     "<module>\n    raise RuntimeError(\"\"\"\nRuntimeError:\n        CUDA Setup failed despite "
     "GPU "
     "being available. Please run the following command to get more information:"},
    {"launcher_args", "ValueError: No slot '7' specified on host 'gpu-03'"},
    {"launcher_args", "ValueError: Hostname 'gpu-09' not found in hostfile"},
    {"deepspeed_op_build", "FileNotFoundError: [Errno 2] No such file or directory: 'g++'"},
    {"deepspeed_op_build",
     "error: command '/usr/bin/x86_64-linux-gnu-gcc' failed with exit code 1"},
    {"precision_unsupported",
     "AssertionError: Device compute capability 10.0 or higher required for MXFP8 execution."},
    {"precision_unsupported",
     "AssertionError: Device compute capability 10.0 or higher required for NVFP4 execution."},
    {"activation_failed",
     "launch: activation script /opt/envs/a/etc/conda/activate.d/gcc.sh ended the start with exit "
     "code 3",
     3},
    {"cuda_driver_too_old",
     "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please "
     "update your GPU driver by downloading and installing a new version from the URL"},
    {"cuda_driver_too_old",
     "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version"},
    {"cuda_driver_too_old",
     "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain."},
    {"cuda_driver_too_old",
     "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update "
     "your driver to a newer version, or use an earlier cuda container",
     125},
    {"cuda_fabric_not_ready",
     "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: "
     "system not yet initialized (Triggered internally at "
     "../c10/cuda/CUDAFunctions.cpp:109.)\nAssertionError"},
    {"cuda_fabric_not_ready", "cudaErrorSystemNotReady: system not yet initialized"},
    {"cuda_fabric_not_ready",
     "nv-fabricmanager[811]: fabric manager NVIDIA GPU driver interface version 535.129.03 don't "
     "match with driver version 535.161.08. Please update with matching NVIDIA driver package.",
     std::nullopt},
    {"driver_library_mismatch",
     "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.54",
     std::nullopt},
    {"driver_library_mismatch",
     "kernel: NVRM: API mismatch: the client has the version 535.183.01, but\nNVRM: this kernel "
     "module has the version 535.171.04.",
     std::nullopt},
    {"driver_library_mismatch",
     "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported "
     "display driver / cuda driver combination"},
    {"driver_library_mismatch",
     "cuda error: forward compatibility was attempted on non supported HW"},
    {"cuda_fabric_not_ready",
     "ERROR: The NVIDIA Driver is present, but CUDA failed to initialize.  GPU functionality will "
     "not be available.\n   [[ System not yet initialized (error 802) ]]"},
    {"driver_library_mismatch",
     "   [[ System has unsupported display driver / cuda driver combination (error 803) ]]"},
    {"driver_library_mismatch", "Failed to initialise NVML: Driver/Library version mismatch",
     std::nullopt},
    {"precision_unsupported",
     "ValueError: bf16 mixed precision requires PyTorch >= 1.10 and a supported device."},
    {"torch_cpu_only",
     "    raise AssertionError(\"Torch not compiled with CUDA enabled\")\nAssertionError: Torch "
     "not compiled with CUDA enabled"},
    {"torch_cpu_only", "RuntimeError: Distributed package doesn't have NCCL built in"},
    {"torch_cpu_only", "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"},
    {"torch_cpu_only",
     "RuntimeError: Attempting to deserialize object on a CUDA device but "
     "torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use "
     "torch.load with map_location=torch.device('cpu')"},
    {"no_kernel_image",
     "RuntimeError: CUDA error: no kernel image is available for execution on the device"},
    {"no_kernel_image",
     "UserWarning: NVIDIA H100 PCIe with CUDA capability sm_90 is not compatible with the current "
     "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_37 sm_50 "
     "sm_60 sm_70."},
    {"no_kernel_image",
     "Found GPU0 Tesla K80 which is of cuda capability 3.7.\nPyTorch no longer supports this GPU "
     "because it is too old."},
    {"no_kernel_image", "RuntimeError: FlashAttention only supports Ampere GPUs or newer."},
    {"toolkit_mismatch",
     "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed "
     "CUDA version 11.5 does not match the version torch was compiled with 12.4, unable to compile "
     "cuda/cpp extensions without a matching cuda version."},
    {"toolkit_mismatch",
     "RuntimeError:\nThe detected CUDA version (10.1) mismatches the version that was used to "
     "compile\nPyTorch (11.7). Please make sure to use the same CUDA versions."},
    {"deepspeed_op_build",
     "/home/a/x/csrc/includes/context.h:11:10: fatal error: cuda_profiler_api.h: No such file or "
     "directory\nninja: build stopped: subcommand failed.\nRuntimeError: Error building extension "
     "'fused_adam'"},
    {"deepspeed_op_build",
     "ImportError: /root/.cache/torch_extensions/py310_cu121/cpu_adam/cpu_adam.so: cannot open "
     "shared object file: No such file or directory"},
    {"deepspeed_op_build",
     "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'"},
    {"deepspeed_op_build",
     "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install "
     "root."},
    {"deepspeed_op_build", "RuntimeError: Ninja is required to load C++ extensions"},
    {"deepspeed_op_build",
     "/usr/bin/ld: cannot find -lcurand\ncollect2: error: ld returned 1 exit status"},
    {"deepspeed_op_build", "Building extension module cpu_adam... FAILED"},
    {"lib_abi_mismatch",
     "ImportError: /opt/v/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: "
     "_ZN3c104cuda9SetDeviceEi"},
    {"lib_abi_mismatch",
     "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found "
     "(required by /opt/v/x.so)"},
    {"lib_abi_mismatch",
     "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory"},
    {"lib_abi_mismatch",
     "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from "
     "C header, got 88 from PyObject"},
    {"precision_unsupported",
     "ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU with "
     "cuda>=11.0"},
    {"precision_unsupported",
     "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
     "Tesla T4 GPU has compute capability 7.5."},
    {"precision_unsupported",
     "ValueError: --tf32 requires Ampere or a newer GPU arch, cuda>=11 and torch>=1.7"},
    {"precision_unsupported", "ValueError: Type bf16 is not supported."},
    {"duplicate_gpu",
     "n1:1:2 [0] init.cc:521 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA "
     "device 81000\nncclInvalidUsage: This usually reflects invalid usage of NCCL library."},
    {"duplicate_gpu",
     "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:219, invalid usage (run "
     "with NCCL_DEBUG=WARN for details), NCCL version 2.19.3\nLast error:\nDuplicate GPU detected "
     ": rank 3 and rank 2 both on CUDA device 41000"},
    {"invalid_device_ordinal",
     "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be asynchronously "
     "reported"},
    {"invalid_device_ordinal", "AssertionError: Invalid device id"},
    {"invalid_device_ordinal",
     "RuntimeError: Attempting to deserialize object on CUDA device 3 but "
     "torch.cuda.device_count() is 1."},
    {"launcher_args",
     "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --local-rank=0", 2},
    {"launcher_args",
     "usage: ft.py [-h] --data DATA\nft.py: error: the following arguments are required: --data",
     2},
    {"python_import",
     "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n    import "
     "apex\nModuleNotFoundError: No module named 'apex'"},
    {"python_import",
     "ImportError: cannot import name 'AdamW' from 'transformers' "
     "(/opt/v/transformers/__init__.py)"},
    {"python_import", "/usr/bin/python3: No module named torchrun"},
    {"torch_cpu_only",
     "RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU "
     "devices."},
    {"no_kernel_image", "RuntimeError: HIP error: invalid device function"},
    {"no_kernel_image",
     "\"hipErrorNoBinaryForGpu: Unable to find code object for all current "
     "devices!\"\nAborted (core dumped)",
     134},
    {"lib_abi_mismatch",
     "E external/xla/xla/stream_executor/cuda/cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.0.0 "
     "but source was compiled with: 9.3.0.  CuDNN library needs to have matching major version"},
    {"precision_unsupported", "AssertionError: NVFP4 requires SM >= 100, got 90"},
    {"launcher_args",
     "missing EQUAL at '<EOF>'\nSee https://hydra.cc/docs/1.2/advanced/override_grammar/basic for "
     "details"},
    {"launcher_args",
     "Error parsing override 'a=b c'\nmismatched input ' ' expecting <EOF>\nSee "
     "https://hydra.cc/docs/1.3/advanced/override_grammar/basic for details"},
    {"launcher_args",
     "Could not override 'model.depth'.\nTo append to your config use +model.depth=3\nKey 'depth' "
     "is not in struct"},
    {"launcher_args",
     "In 'config': Could not find 'model/vit_l'\n\nAvailable options in 'model':\n	vit_b"},
    {"launcher_args", "Unrecognized options: --max-step 10", 2},
    {"launcher_args",
     "fit.py: error: Parser key \"trainer.max_epoch\": Key \"max_epoch\" is not expected", 2},
    {"lib_abi_mismatch",
     "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclGetUniqueId(&id) failed: "
     "Unable to load NCCL library. Multi-GPU collectives will not work."},
    {"torch_cpu_only",
     "ValueError: Cannot use GPU because you have installed CPU version PaddlePaddle."},
    {"torch_cpu_only", "xgboost.core.XGBoostError: XGBoost version not compiled with GPU support."},
    {"invalid_device_ordinal",
     "ValueError: (InvalidArgument) Invalid CUDAPlace(3), must inside [0, 1), because GPU number "
     "on your machine is 1"},
    {"invalid_device_ordinal",
     "ValueError: The requested device for vllm (cuda:1) is not available. You are likely using "
     "vLLM without restricting the number of GPUs for training."},
    {"torch_cpu_only",
     "tensorflow.python.framework.errors_impl.InvalidArgumentError: Cannot assign a device for "
     "operation rnn/CudnnRNNV3: {{node rnn/CudnnRNNV3}} was explicitly assigned to /device:GPU:0 "
     "but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]. Make sure the "
     "device specification refers to a valid device."},
    {"python_import",
     "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Cannot "
     "find a working triton installation. More information on installing Triton can be found at "
     "its page"},
    {"torch_cpu_only", "AssertionError: CUDA is not available"},
    {"torch_cpu_only", "AssertionError: Megatron requires CUDA."},
    {"torch_cpu_only", "ValueError: no CUDA device found, use --device cpu"},
    {"torch_cpu_only", "NotImplementedError: Unsloth: No NVIDIA GPU found? It needs one."},
    {"torch_cpu_only",
     "NotImplementedError: Unsloth cannot find any torch accelerator? You need a GPU."},
    {"invalid_device_ordinal", "RuntimeError: No HIP GPUs are available"},
    {"invalid_device_ordinal", "RuntimeError: No XPU devices are available."},
};

}  // namespace

std::span<const Snippet> EnvironmentSnippets() { return kSnippets; }

}  // namespace launch
