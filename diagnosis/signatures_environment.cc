// What is installed and visible on the node. Sources: cudaGetErrorString of CUDA 9 to 13, torch's
// torch/cuda/__init__.py, csrc/cuda/Module.cpp, utils/cpp_extension.py, DeepSpeed's op_builder/,
// NVIDIA/nccl src/init.cc, glibc's ld.so, CPython's import machinery, argparse.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kEnvironment[] = {
    {.label = "cuda_driver_too_old",
     .weight = 65,
     .phrases = {"driver on your system is too old", "driver version is insufficient",
                 "cudaErrorInsufficientDriver", "compiled with an unsupported toolchain",
                 "unsatisfied condition: cuda", "driver too old",
                 "not supported in the installed CUDA driver"},
     .pattern =
         R"(driver on your system is too old(?: \(found version (\d+)\))?|driver version is insufficient|)"
         R"(cudaErrorInsufficientDriver|PTX was compiled with an unsupported toolchain|)"
         R"(not supported in the installed CUDA driver|unsatisfied condition: cuda ?[>=]|(?:CUDA|NVIDIA|nvidia) driver too old)"},
    {.label = "cuda_driver_too_old",
     .weight = 60,
     .phrases = {"UNSUPPORTED_PTX_VERSION", "UnsupportedPtxVersion", "update your GPU driver"},
     .pattern =
         R"(UNSUPPORTED_PTX_VERSION|UnsupportedPtxVersion|[Pp]lease update your GPU driver)"},
    {.label = "cuda_driver_too_old",  // entrypoint.d/50-gpu-driver-check.sh of NVIDIA's images
     .weight = 60,
     .phrases = {"compatibility mode is UNAVAILABLE"},
     .pattern = R"(compatibility mode is UNAVAILABLE)"},
    // cudaErrorSystemNotReady = 802; text of CUDA 10 and later.
    {.label = "cuda_fabric_not_ready",
     .weight = 70,
     .phrases = {"ystem not yet initialized", "ErrorSystemNotReady", "SYSTEM_NOT_READY",
                 "fabric manager NVIDIA", "Error 802", "error 802"},
     .pattern =
         R"([Ss]ystem not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY|)"
         R"(fabric manager NVIDIA GPU driver interface version|(?i:cuda|runtime|init)[^\n]*[Ee]rror 802)"},
    {.label = "cuda_fabric_not_ready",
     .weight = 60,
     .phrases = {"nvidia-fabricmanager", "fabric manager", "Fabric Manager", "FabricManager"},
     .pattern =
         R"((?i)(?:fabric ?manager[^\n]*(?:failed|not running|not initialized|mismatch|don't match|inactive)|)"
         R"((?:failed|unable|could not)[^\n]*fabric ?manager))",
     .veto = R"((?i)started successfully)"},
    {.label = "driver_library_mismatch",
     .weight = 65,
     .phrases = {"ibrary version mismatch", "LIB_RM_VERSION_MISMATCH", "API mismatch: the client",
                 "unsupported display driver", "SystemDriverMismatch",
                 "forward compatibility was attempted"},
     .pattern =
         R"([Dd]river/[Ll]ibrary version mismatch|LIB_RM_VERSION_MISMATCH|API mismatch: the client|)"
         R"([Ss]ystem has unsupported display driver|SystemDriverMismatch|forward compatibility was attempted)"},
    {.label = "driver_library_mismatch",
     .weight = 55,
     .phrases = {"SYSTEM_DRIVER_MISMATCH", "COMPAT_NOT_SUPPORTED_ON_DEVICE",
                 "CompatNotSupportedOnDevice", "kernel module version", "LibRmVersionMismatch",
                 "NVML/RM version mismatch"},
     .pattern =
         R"(SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED_ON_DEVICE|CompatNotSupportedOnDevice|)"
         R"(LibRmVersionMismatch|NVML/RM version mismatch|)"
         R"(kernel (?:module )?version .* does not match (?:DSO|library) version)"},

    {.label = "torch_cpu_only",
     .weight = 65,
     .phrases = {"not compiled with CUDA", "not linked with CUDA", "doesn't have NCCL built in",
                 "no GPUs found", "without CUDA support"},
     .pattern =
         R"((?i:torch|pytorch|torchvision) (?:is |was )?not (?:compiled with|linked with) CUDA|)"
         R"(package doesn't have NCCL built in|only supported with GPUs, no GPUs found|)"
         R"((?i:torch)[^\n]* (?:built|compiled|installed) without CUDA support)"},
    {.label = "torch_cpu_only",
     .weight = 45,
     .phrases = {"torch.cuda.is_available() is False"},
     .pattern = R"(CUDA device but torch\.cuda\.is_available\(\) is False)",
     .cause = "torch sees no GPU in the job's environment"},

    // paddle/device, mxnet's libinfo, dgl's runtime, xgboost, LightGBM: builds without CUDA.
    {.label = "torch_cpu_only",
     .weight = 60,
     .phrases = {"installed CPU version PaddlePaddle", "Compile with USE_CUDA=1",
                 "Device API cuda is not enabled", "not compiled with GPU support",
                 "GPU Tree Learner was not enabled", "using paddlepaddle cpu version"},
     .pattern =
         R"(while you are using paddlepaddle cpu version|)"
         R"((?:Error|ERROR|[Ff]atal|FATAL|CRITICAL|Check failed)[^\n]*(?:installed CPU version PaddlePaddle|)"
         R"(Compile with USE_CUDA=1 to enable GPU|Device API cuda is not enabled|)"
         R"(XGBoost version not compiled with GPU support|GPU Tree Learner was not enabled in this build))",
     .veto = R"((?i)warning)",
     .cause = "The framework of this environment is a build without CUDA",
     .remedy = "install its build for GPUs (paddlepaddle-gpu, mxnet-cuXXX, dgl of its own CUDA "
               "index), and look with pip list which one the job's environment has"},

    // What programs say themselves; Megatron's arguments, Unsloth's device_type.py. Of a feature, a
    // kind of GPU or a count of them the same words tell nothing of what torch sees.
    {.label = "torch_cpu_only",
     .tier = Tier::kProgram,
     .weight = 44,
     .phrases = {"is not available", "are not available", "requires CUDA", "device found",
                 "devices found", "CUDA not available", "GPU not available", "GPU found",
                 "GPUs found", "any torch accelerator"},
     .pattern =
         R"(^(?:\w+\.)*\w*(?:Error|Exception): (?:[^\n]{0,60}(?:[:,;] |\(|\b(?:but|and|because|as|since|while) ))?)"
         R"((?:the |this |your )?(?:[Pp]y[Tt]orch |[Tt]orch )?(?:CUDA|GPUs?)(?: devices?| support| runtime)?(?: is| are)? not available)"
         R"((?:$|[.,;!?)]| on (?:this|the|your) | in (?:this|the|your) | to [Pp]y[Tt]orch| to torch)|)"
         R"(^AssertionError: Megatron requires CUDA|)"
         R"(^(?:\w+\.)*\w*(?:Error|Exception): (?:[^\n]{0,40}[:,;] )?[Nn]o (?:(?:CUDA|GPU|NVIDIA)(?: GPU)? devices?|(?:NVIDIA |CUDA )?GPUs?) found)"
         R"((?:$|[.,;!?)]| on (?:this|the|your) | in (?:this|the|your) )|)"
         R"(^(?:\w+\.)*\w*(?:Error|Exception): (?:[^\n]{0,40}\b)?cannot find any torch accelerator)",
     .veto = R"(^(?:\w+\.)*(?:Import|ModuleNotFound)Error: )",
     .cause = "The program sees no GPU in the job's environment"},
    // tensorflow/core/common_runtime/colocation_graph.cc.
    {.label = "torch_cpu_only",
     .weight = 46,
     .phrases = {"but available devices are ["},
     .pattern = R"(explicitly assigned to \S*device:GPU:\d+ but available devices are \[)",
     .veto = R"(available devices are \[[^\n]*device:GPU)",
     .cause = "The program places work on a GPU, and TensorFlow sees none in the job's environment",
     .remedy = "python -c \"import tensorflow as tf; print(tf.config.list_physical_devices())\"; "
               "nvidia-smi   # on the node: install tensorflow[and-cuda] or repair the driver"},
    // torch/_inductor/exc.py, TritonMissing.
    {.label = "python_import",
     .tier = Tier::kProgram,
     .weight = 62,
     .phrases = {"working triton installation"},
     .pattern = R"(Cannot find a working triton installation)",
     .cause = "torch.compile found no working Triton in the job's environment",
     .remedy = "pip install the triton that this torch names (pip show torch), on every node; or "
               "run without torch.compile"},

    // Lightning's set-up, torch.utils.collect_env, what scripts print at their start.
    {.tier = Tier::kNote,
     .phrases = {" available: True", "is_available(): True", "is_available() = True",
                 "is_available()=True", "is_available() True", "sing device"},
     .pattern = R"((?:CUDA|cuda) available: True|GPU available: True \(cuda\)|)"
                R"(cuda\.is_available\(\)(?:: | = |=| )True|[Uu]sing device:? ['"]?cuda)",
     .reading = Reading::kGpuSeen},

    // torch/cuda (_lazy_init), Lightning's accelerators, transformers/training_args.py.
    {.label = "torch_cpu_only",
     .weight = 45,
     .phrases = {"Found no NVIDIA driver", "the accelerator is not available",
                 "supported gpu backend found", "can only be used on CUDA",
                 "no CUDA-capable device is detected"},
     .pattern =
         R"(Error: Found no NVIDIA driver|can not run on your system since the accelerator is not available|)"
         R"(No supported gpu backend found|Error: (?:FP16|BF16)[^\n]*can only be used on CUDA|)"
         R"(RuntimeError: [^\n]*no CUDA-capable device is detected)",
     .cause = "The program sees no GPU and no driver in the job's environment"},

    {.label = "torch_cpu_only",  // jax/_src/xla_bridge.py
     .weight = 45,
     .phrases = {"Unable to initialize backend '"},
     .pattern = R"(RuntimeError: Unable to initialize backend '(?:cuda|gpu|rocm)')",
     .cause = "JAX sees no GPU in the job's environment",
     .remedy = "nvidia-smi; python -c 'import jax; print(jax.devices())'   # pip install -U "
               "'jax[cuda12]' where its plugin is missing; echo $CUDA_VISIBLE_DEVICES"},

    // c10/cuda/CUDAFunctions.cpp and torch/csrc/cuda/Module.cpp pass cudaGetErrorString on: 3, 999
    // and 304 are a driver that cannot be initialised on this node (nvidia_uvm not loaded, no
    // /dev/nvidia*, a card that does not answer), whatever the program does.
    {.label = "torch_cpu_only",
     .weight = 46,
     .phrases = {"CUDA unknown error - this may", "CUDA driver initialization failed",
                 "Error 999: unknown error", "Error 304: OS call", "CUDA error: OS call failed",
                 "CUDA error: initialization error", "failed call to cuInit: "},
     .pattern =
         R"(Error: (?:[^\n]*)(?:CUDA unknown error - this may be due|CUDA driver initialization failed|)"
         R"(Error 999: unknown error|Error 304: OS call|CUDA error: (?:OS call failed|initialization error)|)"
         R"(failed call to cuInit: ))",
     .veto = R"(forked subprocess|Warning: )",
     .cause = "The NVIDIA driver of this node cannot be initialised",
     .action = "retry_elsewhere",
     .remedy = "nvidia-smi; ls -l /dev/nvidia*; sudo modprobe nvidia_uvm   # on the node; after a "
               "suspend or an update of the driver reload the modules or reboot"},
    {.label = "torch_cpu_only",  // as a warning: the program goes on without a GPU, or says more
     .tier = Tier::kNote,
     .weight = 46,
     .phrases = {"CUDA unknown error - this may", "CUDA driver initialization failed",
                 "Error 999: unknown error", "Error 304: OS call", "failed call to cuInit: "},
     .cause = "The NVIDIA driver of this node cannot be initialised",
     .action = "retry_elsewhere",
     .remedy = "nvidia-smi; ls -l /dev/nvidia*; sudo modprobe nvidia_uvm   # on the node; after a "
               "suspend or an update of the driver reload the modules or reboot"},
    // libnvidia-container's nvc.c, as docker, podman and enroot pass it on.
    {.label = "torch_cpu_only",
     .weight = 58,
     .phrases = {"nvidia-container-cli: "},
     .pattern =
         R"(nvidia-container-cli: (?:initialization|container|detection|mount) error: ([^\n]{1,120}))",
     .veto = R"(rpc error|timed out|ersion mismatch|unsatisfied condition)",
     .cause = "The container cannot be given this node's GPUs: \\1",
     .action = "retry_elsewhere",
     .remedy =
         "nvidia-smi; nvidia-container-cli info   # on the node: is the driver loaded, are its "
         "libraries there (ldconfig -p | grep libnvidia-ml)"},
    {.label = "xid_gpu_hardware",
     .confidence = Confidence::kSymptom,
     .weight = 57,
     .phrases = {"driver rpc error", "nvidia-container-cli: "},
     .pattern =
         R"(driver rpc error: (?:timed out|[^\n]{1,60})|nvidia-container-cli: [^\n]*timed out)",
     .cause = "The NVIDIA driver of this node does not answer"},

    {.label = "no_kernel_image",  // ROCm
     .weight = 66,
     .phrases = {"HIP error: no kernel image", "HIP error: invalid device function",
                 "hipErrorNoBinaryForGpu"},
     .remedy = "rocminfo | grep gfx; python -c 'import torch; print(torch.cuda.get_arch_list())'   "
               "# install a build for that gfx, or rebuild with PYTORCH_ROCM_ARCH; "
               "HSA_OVERRIDE_GFX_VERSION helps near relatives"},
    // Runtime texts, torch's warning of torch/cuda/__init__.py (_check_capability), ptxas, Triton.
    {.label = "no_kernel_image",
     .weight = 65,
     .phrases = {"no kernel image is available", "ErrorNoKernelImage", "NO_BINARY_FOR_GPU",
                 "with the current PyTorch installation", "kernel image is invalid",
                 "no longer supports this GPU"},
     .pattern = R"(no kernel image is available|cudaErrorNoKernelImage|NO_BINARY_FOR_GPU|)"
                R"((sm_\d+\w?)? ?is not compatible with the current PyTorch installation|)"
                R"(device kernel image is invalid|no longer supports this GPU)"},
    {.label = "no_kernel_image",
     .weight = 55,
     .phrases = {"only supports Ampere", "is not defined for option 'gpu-name'",
                 "current PyTorch install supports CUDA", "minimum cuda capability",
                 "only supports GPUs with", "invalid value for --gpu-architecture"},
     .pattern =
         R"(invalid value for --gpu-architecture|only supports Ampere GPUs|is not defined for option 'gpu-name'|)"
         R"(current PyTorch install supports CUDA capabilities|)"
         R"(minimum cuda capability supported by this library|only supports GPUs with (?:compute )?capability)"},

    // What libraries ask of a GPU: vllm/platforms, torch/_inductor/scheduler.py, bitsandbytes,
    // TensorRT-LLM. Precisions have rows of their own.
    {.label = "no_kernel_image",
     .weight = 55,
     .phrases = {"too old to be supported by", "compute capability", "Compute Capability",
                 "CUDA Capability >=", "Minimum capability: ", "CUDA capability"},
     .pattern =
         R"(too old to be supported by the triton|devices of CUDA Capability >=|Minimum capability: \d+\. Current capability: \d+|)"
         R"((?i:compute capability (?:below|lower than|less than|under|<) ?[\d.]+ (?:is|are) (?:not|no longer) supported)|)"
         R"((?i:Error: [^\n]*(?:requires?|needs?|only supports?)[^\n]{0,40} (?:GPUs?|devices?|cards?)[^\n]{0,20} (?:of|with) (?:CUDA |a )?(?:compute )?capability))",
     .veto = R"((?i)\b(?:bf16|bfloat16|fp8|float8|fp16|half|warning)\b)"},

    {.label = "no_kernel_image",
     .weight = 64,
     .phrases = {"invalid device function", "ErrorInvalidDeviceFunction", "STATUS_ARCH_MISMATCH",
                 "ErrorNoBinaryForGpu"},
     .pattern =
         R"((?:CUDA|HIP) error: invalid device function|cudaErrorInvalidDeviceFunction|CUDNN_STATUS_ARCH_MISMATCH|)"
         R"(hipErrorNoBinaryForGpu)"},
    {.label = "no_kernel_image",  // cutlass's kernel_forward.h in xformers and torch
     .weight = 64,
     .phrases = {"FATAL: kernel `"},
     .pattern = R"(FATAL: kernel `[^`]*` is for sm\d+[^\n]*but was built for sm\d+)"},

    // op_builder/builder.py assert_no_cuda_mismatch; torch/utils/cpp_extension.py; apex's setup.py.
    {.label = "toolkit_mismatch",
     .weight = 48,
     .phrases = {"does not match the version torch was", "CUDAMismatchException",
                 "mismatches the version", "version of Cuda that does not match",
                 "version of CUDA that does not match", "does not match torch",
                 "does not match PyTorch", "does not match the torch", "does not match the PyTorch",
                 "doesn't match torch", "doesn't match PyTorch"},
     .pattern =
         R"(Installed CUDA version ([\d.]+) does not match the version torch was compiled with ([\d.]*\d)|)"
         // As people shorten it.
         R"((?:CUDA|[Tt]oolkit|nvcc)(?: toolkit)?(?: version)? (\d+\.\d+)[\d.]* (?:does not|doesn't) match (?:the )?)"
         R"((?:[Pp]y)?[Tt]orch\D{0,32}(\d+\.\d+)|)"
         R"(CUDAMismatchException|detected CUDA version \([\d.]+\) mismatches the version|)"
         R"(compiled with a version of C[Uu][Dd][Aa] that does not match|does not match the version torch was)",
     .veto = R"(accepting this combination|minor version mismatch)"},

    {.label = "toolkit_mismatch",  // flash-attention's setup.py
     .weight = 48,
     .phrases = {"FlashAttention is only supported on CUDA"}},

    // The compiler itself is missing: op_builder/builder.py, triton/runtime/build.py,
    // torch/_inductor/cpp_builder.py, gcc's driver.
    {.label = "deepspeed_op_build",
     .weight = 58,
     .phrases = {"No such file or directory: '", "find C compiler", "working C++ compiler found",
                 "cannot execute 'cc1plus'"},
     .pattern =
         R"(No such file or directory: '(?:\S*/)?(?:nvcc|ninja|g\+\+|c\+\+|gcc|cc)'|Failed to find C compiler|)"
         R"(No working C\+\+ compiler found|cannot execute 'cc1plus')",
     .cause = "There is no compiler where a CUDA or C++ extension is built at the start"},
    // torch's c10/util/C++17.h; the compilers' own lines, of which the first tells most.
    {.label = "deepspeed_op_build",
     .weight = 60,
     .phrases = {"too old version of GCC"},
     .pattern = R"(too old version of GCC\. ?([^"\n]{0,60}))",
     .cause = "The compiler is too old for this torch: \\1",
     .remedy = "module load gcc or conda install -c conda-forge gxx; export CC=gcc CXX=g++; rm -rf "
               "~/.cache/torch_extensions"},
    {.label = "deepspeed_op_build",
     .weight = 59,
     .phrases = {": error: ", ": fatal error: "},
     .pattern =
         R"(\.(?:h|hh|hpp|cuh|cu|c|cc|cpp|cxx)(?::\d+:\d+|\(\d+\)): (?:fatal )?error: (\S[^\n]{0,160}))",
     .cause = "A CUDA or C++ extension could not be compiled: \\1",
     .reading = Reading::kCompiler},
    {.label = "deepspeed_op_build",
     .weight = 58,
     .phrases = {"fatal error: "},
     .pattern =
         R"(fatal error: (\S+\.(?:h|hh|hpp|cuh|inc|hxx)): No such file|fatal error: (\S+): No such file or directory)",
     .cause = "A CUDA or C++ extension could not be compiled: there is no \\1",
     .reading = Reading::kCompiler},
    {.label = "deepspeed_op_build",
     .weight = 58,
     .phrases = {"ninja: build stopped", "Error building extension", "Unable to JIT load",
                 "Error compiling objects", "subcommand failed."},
     .pattern =
         R"(ninja: build stopped|Error building extension '?(\w+)?|Unable to JIT load the (\w+)|)"
         R"(Error compiling objects for extension)"},
    {.label = "deepspeed_op_build",  // triton/runtime/build.py, of what it writes to be compiled
     .weight = 56,
     .phrases = {"/main.c'", "/cuda_utils.c'", "/hip_utils.c'", "_launcher.c'"},
     .pattern =
         R"(Command '\['\S*(?:gcc|clang|cc)', '\S*(?:/main|/cuda_utils|/hip_utils|_launcher)\.c')"},
    {.label = "deepspeed_op_build",
     .weight = 58,
     .phrases = {"torch_extensions/", "'ds_opt_", "inja is required to load C++",
                 "CUDA_HOME environment variable is not", "CUDA_HOME does not exist",
                 "MissingCUDAException"},
     .pattern = R"(torch_extensions/\S+\.so: cannot open shared object|has no attribute 'ds_opt_|)"
                R"([Nn]inja is required to load C\+\+|CUDA_HOME environment variable is not set|)"
                R"(CUDA_HOME does not exist|MissingCUDAException)",
     .veto = R"((?i)^\s*(?:\[?warning|warn))"},
    {.label = "deepspeed_op_build",
     .weight = 52,
     .phrases = {"cannot find -l", "nvcc fatal", "Building extension module ", "'ninja', '-v'",
                 "unsupported GNU version", "' failed with exit", "Unknown CUDA arch ("},
     .pattern =
         R"(cannot find -l(\w+)|nvcc fatal\s*:|Building extension module (\w+)\W*FAILED|)"
         R"('ninja', '-v'\]' returned non-zero|unsupported GNU version|Unknown CUDA arch \(|)"
         R"(command '\S*(?:nvcc|gcc|g\+\+|cc|c\+\+|clang)' failed with exit)",
     .veto = R"(-laio|-lcufile)"},  // DeepSpeed looks for them at every import
    {.label = "deepspeed_op_build",
     .weight = 52,
     .phrases = {"'which', 'c++'", "'which', 'g++'", "C++17 or later compatible compiler",
                 "#error C++17", "You need C++17", "gnu-gcc' failed", "failed to build op"},
     .pattern =
         R"('which', '[cg]\+\+'\]' returned non-zero|#error (?:"?You need )?C\+\+17|)"
         R"(C\+\+17 or later compatible compiler is required|gnu-gcc' failed with exit|failed to build op)"},

    {.label = "lib_abi_mismatch",  // bitsandbytes/cextension.py
     .weight = 57,
     .phrases = {"CUDA Setup failed despite"},
     .cause = "bitsandbytes has no library of its own for this CUDA version",
     .remedy = "python -m bitsandbytes; pip install -U bitsandbytes   # 0.43 and later bring one "
               "for each CUDA version; BNB_CUDA_VERSION=121 names another one"},
    {.label = "lib_abi_mismatch",  // glibc's ld.so
     .weight = 57,
     .phrases = {"GLIBC_2.", "GLIBCXX_3.", "CXXABI_1."},
     .pattern = R"(((?:GLIBC_2|GLIBCXX_3|CXXABI_1)\.[\d.]+)['"]? not found)",
     .veto = R"((?i)UserWarning|Failed to load image Python extension|warn\()",
     .cause = "A compiled library needs \\1, which the C or C++ library that it found here lacks",
     .remedy =
         "GLIBCXX and CXXABI: a newer libstdc++ in front (conda install -c conda-forge "
         "libstdcxx-ng; export LD_LIBRARY_PATH=$CONDA_PREFIX/lib); GLIBC: a wheel for this system "
         "or a container; what torch built itself: rm -rf ~/.cache/torch_extensions"},
    {.label = "lib_abi_mismatch",
     .weight = 56,
     .phrases = {"undefined symbol", "symbol lookup error", "binary incompatibility",
                 "CUDA Setup failed despite"},
     .pattern =
         R"(undefined symbol: ?(\S*)|)"
         R"(symbol lookup error|may indicate binary incompatibility|CUDA Setup failed despite)",
     .veto =
         R"((?i)UserWarning|Failed to load image Python extension|warn\(|^\S*libbitsandbytes_cpu\.so: undefined)"},
    // bitsandbytes/cextension.py tells so of its CPU library, and goes on without 8 bits; what
    // needs them fails later.
    {.label = "lib_abi_mismatch",
     .tier = Tier::kNote,
     .weight = 55,
     .phrases = {"libbitsandbytes_cpu.so: undefined"},
     .pattern = R"(^\S*libbitsandbytes_cpu\.so: undefined)",
     .cause = "bitsandbytes took its library for CPUs"},
    {.label = "lib_abi_mismatch",
     .tier = Tier::kProgram,
     .weight = 60,
     .phrases = {"name 'str2optimizer"},
     .pattern = R"(NameError: name 'str2optimizer\d+bit' is not defined)",
     .cause = "bitsandbytes took its library for CPUs, which has no 8-bit optimizer",
     .remedy =
         "python -m bitsandbytes   # which library it looks for; pip install -U bitsandbytes; "
         "BNB_CUDA_VERSION=121 names another one"},
    {.label = "lib_abi_mismatch",
     .weight = 54,
     .phrases = {"cannot open shared object", "DLL load failed"},
     .pattern =
         R"(lib(?:cu|nccl|nv|torch|c10|mpi|stdc|cudart|cublas|cudnn|gomp|mkl|openblas|rocm|hip|amd)[\w.+-]*\.so[\w.]*: cannot open shared object|)"
         R"(DLL load failed)",
     .veto =
         R"(torch_extensions/|dlerror|Could not load dynamic library|libnvinfer|libcupti|^lib(?:cuda|nvidia-ml)\.so|WARNING|)"
         R"(NCCL INFO)"},  // a plugin that is not there
    // ENOEXEC and the loaders' words for it: x86 on Arm or the reverse, or a file cut short.
    {.label = "lib_abi_mismatch",
     .weight = 55,
     .phrases = {"Exec format error", "exec format error", "cannot execute binary file",
                 "wrong ELF class", "invalid ELF header", "bad CPU type in executable"},
     .pattern =
         R"([Ee]xec format error|cannot execute binary file|wrong ELF class|invalid ELF header|)"
         R"(bad CPU type in executable)",
     .cause = "A program or library was built for another kind of processor than this node's",
     .remedy = "uname -m; file -L PATH   # make the environment or the image on a node of the same "
               "architecture (x86_64 or aarch64)"},
    // The driver's own libraries come with the driver, into containers through its runtime.
    {.label = "torch_cpu_only",
     .weight = 57,
     .phrases = {"libcuda.so", "libnvidia-ml.so"},
     .pattern =
         R"((?:^(?:\w+\.)*(?:ImportError|OSError|RuntimeError): [^\n]*|error while loading shared libraries: )lib(?:cuda|nvidia-ml)\.so(?:\.1)?: cannot open)",
     .veto = R"((?i)dlerror|Could not load dynamic library|warning)",
     .cause =
         "The driver's own library is not there: no NVIDIA driver on this node, or a container "
         "without GPUs",
     .remedy = "nvidia-smi   # on the node; docker run --gpus all, apptainer exec --nv"},
    {.label = "torch_cpu_only",
     .weight = 57,
     .phrases = {"could not select device driver"},
     .cause = "The container runtime of this node knows no GPUs",
     .remedy =
         "install the NVIDIA container toolkit (nvidia-ctk runtime configure), then docker run "
         "--rm --gpus all IMAGE nvidia-smi"},
    // torchvision/extension.py, torch/library.py, torch/backends/cudnn, glibc's dl-tls.c (aarch64).
    {.label = "lib_abi_mismatch",
     .weight = 54,
     .phrases = {"compiled with different CUDA", "operator torchvision::", "load custom C++ ops",
                 "cuDNN version incompatibility", "in static TLS block", "Numpy is not available",
                 "Loaded runtime CuDNN library", "Unable to load NCCL library"},
     .pattern =
         R"(were compiled with different CUDA(?: major)? versions|operator torchvision::\w+ does not exist|)"
         R"(Couldn't load custom C\+\+ ops|cuDNN version incompatibility|)"
         R"(Loaded runtime CuDNN library: [\d.]+ but source was compiled with|)"
         R"(Unable to load NCCL library|)"  // XLA's nccl stub
         R"(cannot allocate memory in static TLS block|RuntimeError: Numpy is not available)"},
    {.label = "lib_abi_mismatch",  // its C interface is of another version than the extension's
     .tier = Tier::kProgram,
     .weight = 61,
     .phrases = {"multiarray failed to import"},
     .pattern = R"(ImportError: numpy\.core\.multiarray failed to import)"},
    {.label = "lib_abi_mismatch",  // NumPy warns first; whether it is fatal the exception tells
     .tier = Tier::kProgram,
     .weight = 35,
     .phrases = {"compiled using NumPy 1", "_ARRAY_API not found", "compiled against API version",
                 "compiled against ABI version"},
     .pattern =
         R"(compiled using NumPy 1\.x cannot be run|_ARRAY_API not found|module compiled against A[PB]I version)"},

    // accelerate/utils/other.py and transformers/training_args.py word it in several ways.
    {.label = "precision_unsupported",
     .weight = 60,
     .phrases = {"doesn't support bf16", "doesn't support fp8", "not support bf16",
                 "not support bfloat16", "requires Ampere", "oat16 is only supported"},
     .pattern = R"(does(?:n't| not) support (?:bf16|bfloat16|fp8)|not support b(?:f|float)16|)"
                R"((?:tf32|TF32|bf16)[^\n]{0,40}requires Ampere|[Bb][Ff]loat16 is only supported)"},
    {.label = "precision_unsupported",
     .weight = 60,
     .phrases = {"is not supported", "are not supported", "not supported on", "only supported on",
                 "is only supported", "are only supported", "mixed precision requires",
                 "with cuda>=11.0"},
     .pattern =
         R"((?i)\b(?:bf16|bfloat16|fp8|tf32|float8\w*|fp8\w*|fp16)['"`]?(?: \w+){0,3} (?:is|are) (?:not|only) supported|)"
         R"((?:fp16|bf16|fp8) mixed precision requires|with cuda>=11\.0|(?:bf16|bfloat16|fp8) (?:\w+ ){0,2}not supported on)",
     .veto = R"((?i)falling back|instead\b.*using|will use)"},

    // aten's dispatch, triton/language/semantic.py, TransformerEngine's fp8.py.
    {.label = "precision_unsupported",
     .weight = 58,
     .phrases = {"not implemented for 'Half'", "not implemented for 'BFloat16'",
                 "not implemented for 'Float8", "not supported in this architecture",
                 "required for FP8", "required for MXFP8", "required for NVFP4", " requires SM",
                 " requires sm"},
     .pattern =
         R"(not implemented for '(?:Half|BFloat16|Float8\w*)'|type fp8\w* not supported in this architecture|)"
         R"(compute capability [\d.]+(?: or higher)? required for (?:FP8|MXFP8|NVFP4)|)"
         R"((?:Error|Exception): [^\n]{0,60}(?i:\b(?:fp8|mxfp8|nvfp4|fp4|bf16|bfloat16)\b[^\n]{0,20} requires sm ?(?:>=|_)? ?\d+))"},

    {.label = "duplicate_gpu",
     .weight = 70,
     .phrases = {"Duplicate GPU detected", "using the same GPU", "same CUDA device"},
     .pattern = R"(Duplicate GPU detected ?: ?rank (\d+) and rank (\d+)|Duplicate GPU detected|)"
                R"([Mm]ultiple ranks[^\n]*same (?:GPU|CUDA device))"},

    {.label = "invalid_device_ordinal",
     .weight = 60,
     .phrases = {"invalid device ordinal", "ErrorInvalidDevice", "ERROR_INVALID_DEVICE",
                 "Invalid device id", "No CUDA GPUs are available", "torch.cuda.device_count() is",
                 "No HIP GPUs are available", "No XPU devices are available"},
     .pattern =
         R"(invalid device ordinal|cudaErrorInvalidDevice\b|CUDA_ERROR_INVALID_DEVICE\b|Invalid device id|)"
         R"(No CUDA GPUs are available|Error: No (?:HIP GPUs|XPU devices) are available|but torch\.cuda\.device_count\(\) is \d+)"},

    // Lightning's device_parser.py.
    {.label = "invalid_device_ordinal",
     .weight = 61,
     .phrases = {"your machine only has: "},
     .pattern = R"(You requested gpu: (\[[^\]\n]*\]) +But your machine only has: (\[[^\]\n]*\]))",
     .cause = "The program asks for the GPUs \\1, and it sees \\2"},
    {.label = "invalid_device_ordinal",  // trl/trainer/grpo_trainer.py
     .weight = 61,
     .phrases = {"requested device for vllm ("},
     .pattern = R"(requested device for vllm \((\w+:\d+)\) is not available)",
     .cause = "vLLM is given the GPU \\1 for itself, which is not there",
     .remedy = "start one rank fewer than there are GPUs (--num_processes N-1), or let both share "
               "them: vllm_mode=colocate"},
    // CUDAContext.cpp; Lightning's device_parser.py.
    {.label = "invalid_device_ordinal",
     .weight = 60,
     .phrases = {"device >= 0 && device < num_gpus", "You requested gpu: ",
                 "your machine only has: ", "processes requested per node but",
                 "Invalid CUDAPlace(", "requested device for vllm ("},  // Paddle's place checks
     .pattern =
         R"(device >= 0 && device < num_gpus|You requested gpu: \[|Invalid CUDAPlace\(\d+\)|)"
         R"(requested device for vllm \(\w+:\d+\) is not available|)"  // TRL's grpo_trainer.py

         R"(processes requested per node but only \d+ GPU)"},

    // absl, python-fire and click.
    {.label = "launcher_args",
     .weight = 52,
     .phrases = {"Unknown command line flag", "Could not consume arg: ", "Error: Missing option ",
                 "Error: Missing argument", "unexpected extra argument"},
     .pattern = R"(Unknown command line flag '?([\w-]*)|ERROR: Could not consume arg: (\S*)|)"
                R"(^Error: Missing (?:option|argument) |^Error: Got unexpected extra argument)"},

    // hydra/core/override_parser/overrides_parser.py, ANTLR's error strategy, and
    // hydra/_internal/config_loader_impl.py: the parser's own words stand on the line above, or
    // what it read and a mark below it.
    {.label = "launcher_args",
     .weight = 54,
     .phrases = {"/advanced/override_grammar"},
     .pattern =
         R"(((?:mismatched input|no viable alternative|extraneous input|token recognition error|missing \S{1,40} at|)"
         R"(Error (?:parsing|when parsing))[^\n]{0,160}?) See https?://hydra\.cc/docs/(?:[\w.]{1,16}/)?advanced/override_grammar)",
     .cause = "Hydra cannot read an override of the command line: \\1",
     .remedy = "write overrides as key=value, quoted for Hydra too where the value has spaces, "
               "commas or brackets: 'key=\"a, b\"'"},
    {.label = "launcher_args",
     .weight = 53,
     .phrases = {"/advanced/override_grammar", "LexerNoViableAltException"},
     .pattern =
         R"(\^ See https?://hydra\.cc/docs/(?:[\w.]{1,16}/)?advanced/override_grammar|LexerNoViableAltException: )",
     .cause = "Hydra cannot read an override of the command line",
     .remedy = "write overrides as key=value, quoted for Hydra too where the value has spaces, "
               "commas or brackets: 'key=\"a, b\"'"},
    {.label = "launcher_args",
     .weight = 54,
     .phrases = {"': Could not find '", "Could not override '"},
     .pattern =
         R"(^(?:[\w.]+Exception: )?In '[^'\n]*': (Could not find '[^'\n]*')|)"
         R"(^(?:[\w.]+Exception: )?(Could not override '[^'\n]*')\.(?:$| To append| No match in the defaults))",
     .cause = "Hydra's configuration has no such key or option: \\1\\2",
     .remedy = "correct the name, or add the key with +key=value; --cfg job prints what there is"},

    // deepspeed/launcher/runner.py, of --include, --exclude and the hostfile.
    {.label = "launcher_args",
     .weight = 52,
     .phrases = {"specified in hostfile", "specified on host", "not found in hostfile",
                 "Hostfile is not formatted", "Hostfile contains multiple",
                 "proceed with launching"},
     .pattern = R"(No slot '[^'\n]*' specified (?:on host|in hostfile)|not found in hostfile|)"
                R"(Hostfile (?:is not formatted correctly|contains multiple entries)|)"
                R"(unable to proceed with launching)",
     .cause = "The hosts and slots of the launch do not match the hostfile",
     .remedy =
         "cat the hostfile: one `HOST slots=N` a line; --include and --exclude name only what "
         "stands there"},

    // srun and sbatch, of what was asked of the scheduler (slurm_errno.c); "retrying" goes on.
    {.label = "launcher_args",
     .weight = 52,
     .phrases = {"Unable to create step for job", "Unable to allocate resources: ",
                 "job submission failed: ", "Job submit/allocate failed: ",
                 "are mutually exclusive", "Unable to confirm allocation"},
     .pattern =
         R"((?:srun|sbatch|salloc): (?:error|fatal): (?:[^\n]*)(?:Unable to create step for job \d+|Unable to allocate resources|)"
         R"(job submission failed|Job submit/allocate failed|Unable to confirm allocation for job \d+): ([^\n]+)|)"
         R"((?:srun|sbatch|salloc): fatal: ([^\n]*are mutually exclusive))",
     .veto =
         R"(, retrying|Requested nodes are busy|temporarily disabled|Socket timed out|Unable to contact|time limit)",
     .cause = "Slurm refuses what the job asks for: \\1",
     .remedy = "compare the options of srun and #SBATCH with scontrol show job and sinfo -o "
               "\"%P %G %c %m %l\""},

    // argparse of the script; torchrun passes LOCAL_RANK in the environment since 2.0.
    {.label = "launcher_args",
     .weight = 55,
     .phrases = {"unrecognized arguments", "the following arguments are required",
                 "invalid choice: ", "no such option", "No such option",
                 "arguments are not used by", "keys are not used by"},
     .pattern =
         R"(error: unrecognized arguments: ?(\S*)|error: the following arguments are required: ?(\S*)|)"
         R"(error: argument \S+:? .*invalid choice|[Nn]o such option:? ?(\S*)|)"
         R"(Some (?:specified arguments|keys) are not used by the HfArgumentParser)"},
    {.label = "launcher_args",
     .weight = 50,
     // tyro and jsonargparse (Lightning's command line) beside it.
     .phrases = {"error: argument ", "expected one argument", "ambiguous option",
                 "Unrecognized options: ", "Unrecognized or misplaced options: ",
                 "error: Parser key ", "error: Validation failed: "},
     .pattern =
         R"(error: argument \S+: (?:invalid|expected)|error: ambiguous option|)"
         R"(^\W*Unrecognized (?:or misplaced )?options: -|^(?:\S+: )?error: (?:Parser key \S|)"
         R"(Validation failed: (?:Key |No action for |Parser key |Problem with|Configuration check)))"},

    {.label = "python_import",
     .tier = Tier::kProgram,
     .weight = 60,
     .phrases = {"ModuleNotFoundError", "ImportError", "No module named", "Failed to import "},
     .pattern =
         R"((?:^|[\s(:])ModuleNotFoundError: ?(.*)|(?:^|[\s(:])ImportError: ?(.*)|)"
         R"(: No module named ['"]?([\w.]+)|^No module named|RuntimeError: Failed to import (\S+))",
     .veto =
         R"((?i)^\s*(?:except|#)\b|\b(?:warning|warn|info|debug)\b.{0,40}(?:No module|Import)|falling back|ignor)",
     .cause = "A Python module could not be imported: \\1"},
};

}  // namespace

std::span<const Signature> EnvironmentSignatures() { return kEnvironment; }

}  // namespace launch
