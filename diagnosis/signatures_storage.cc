// Files, disks, checkpoints and what is downloaded. Sources: errno texts of glibc, CPython's
// OSError, caffe2/serialize/inline_container.cc and torch/serialization.py, safetensors' error
// enum, huggingface_hub, requests and urllib3, Linux fs/ and nfs messages.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kStorage[] = {
    {.label = "disk_full",
     .weight = 62,
     .phrases = {"o space left on device", "Errno 28", "isk quota exceeded", "Errno 122",
                 "StorageFull", "not enough free disk space", "ot enough space",
                 "ot enough disk space"},
     .pattern =
         R"([Nn]o space left on device|\[?Errno 28\]?|[Dd]isk quota exceeded|Errno 122|kind: StorageFull|)"
         R"(not enough free disk space|[Nn]ot enough (?:disk )?space (?:left )?on)",
     .veto = R"(/dev/shm|</?torch_|posix_fallocate|shared memory|shm_open|inotify)"},
    {.label = "disk_full",  // datasets/builder.py, SQLite
     .weight = 60,
     .phrases = {"Not enough disk space.", "database or disk is full"}},
    {.label = "disk_full",
     .weight = 50,
     .phrases = {"PytorchStreamWriter failed", "write(): fd ", "unexpected pos ",
                 "file write failed", "o usable temporary directory"},
     .pattern =
         R"(PytorchStreamWriter failed writing|write\(\): fd \d+ failed|unexpected pos \d+ vs \d+|)"
         R"(file write failed: |[Nn]o usable temporary directory)"},

    {.label = "disk_full",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"low on resource: ephemeral-storage",
                 "Pod ephemeral local storage usage exceeds"}},

    {.label = "checkpoint_corrupt",
     .weight = 66,
     .phrases = {"PytorchStreamReader failed", "failed finding central", "archive is corrupted",
                 "deserializing header", "invalid load key", "file might be corrupted"},
     .pattern =
         R"(PytorchStreamReader failed|failed finding central directory|archive is corrupted|)"
         R"([Ee]rror while deserializing header|invalid load key|file might be corrupted)"},
    {.label = "checkpoint_corrupt",
     .weight = 64,
     .phrases = {"Ran out of input", "UnpicklingError", "BadZipFile", "MetadataIncompleteBuffer",
                 "storage has wrong ", "unexpected EOF"},
     .pattern =
         R"(EOFError: Ran out of input|UnpicklingError: (?:pickle data was truncated|unpickling stack|invalid|A load)|BadZipFile|)"
         R"(MetadataIncompleteBuffer|storage has wrong (?:byte )?size|unexpected EOF, expected \d+)"},
    {.label = "checkpoint_corrupt",
     .weight = 64,
     .phrases = {"HeaderTooLarge", "HeaderTooSmall", "InvalidHeader", "pickle data was truncated",
                 " is corrupt", "may be corrupt", "seems corrupt",
                 "Unable to open file (truncated"},
     .pattern =
         R"(HeaderTooLarge|HeaderTooSmall|InvalidHeader(?:Deserialization|Length|Start)|pickle data was truncated|)"
         R"([Cc]heckpoint (?:file )?(?:is|may be|seems) corrupt|Unable to open file \(truncated)"},
    {.label =
         "checkpoint_corrupt",  // transformers/trainer.py, of the directory it is told to resume
     .weight = 60,
     .phrases = {"find a valid checkpoint at"}},
    {.label = "checkpoint_corrupt",
     .weight = 64,
     .phrases = {"corrupted checkpoint", "Corrupted checkpoint", "corrupt checkpoint",
                 "header too small", "Unable to load weights from", "incomplete checkpoint"},
     .pattern =
         R"((?i)corrupt(?:ed)? checkpoint|header too small|Unable to load weights from pytorch checkpoint|)"
         R"(incomplete checkpoint)",
     .veto =
         R"(^\W*(?:[a-z_.\d]+[\]:]+ )?(?:\w+ ){0,3}(?i:(?:no|remov\w+|delet\w+|skip\w*|ignor\w+) (?:corrupt|incomplete)))"},

    {.label = "storage_io",  // ESTALE
     .weight = 62,
     .phrases = {"tale file handle", "tale NFS file handle", "Errno 116]"},
     .pattern = R"([Ss]tale (?:NFS )?file handle|Errno 116\])",
     .cause = "A file of a network file system was removed or replaced on its server while it was "
              "open here (stale handle)",
     .remedy = "see whether two jobs or nodes write the same cache or output (HF_DATASETS_CACHE, "
               "HF_HOME of each node its own); else mount; dmesg -T | tail -50 on that node"},
    {.label = "storage_io",  // ENOTCONN, of FUSE
     .weight = 62,
     .phrases = {"Transport endpoint is not", "Errno 107]"},
     .pattern =
         R"(OSError: \[Errno 107\][^\n]*: ?['"/]|Transport endpoint is not connected: ?['"/])",
     .cause = "A FUSE mount (gcsfuse, s3fs, sshfs, ...) lost its daemon on this node",
     .remedy = "mount | grep fuse; fusermount -u DIR and mount it again on that node; its own log "
               "says why it ended"},
    {.label = "storage_io",
     .weight = 62,
     .phrases = {"tale file handle", "nput/output error", "tale NFS file handle",
                 "Remote I/O error", "disk I/O error", "Errno 116]", "Errno 5]", "Errno 121]",
                 "Errno 70]", "Errno 108]", "Errno 112]"},
     .pattern =
         R"([Ss]tale (?:NFS )?file handle|[Ii]nput/output error|Errno (?:116|5|121|70|108|112)\]|Remote I/O error|disk I/O error)",
     .veto = R"((?i)termios|ioctl|stdin|tcgetattr)"},
    {.label = "storage_io",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 40,
     .phrases = {"Buffer I/O error", "I/O error, dev", "emounting filesystem read-only",
                 "nfs: server ", "LustreError", "EXT4-fs error", "nvme nvme", "metadata I/O error",
                 "blk_update_request", "critical medium error"},
     .pattern =
         R"(Buffer I/O error on dev|I/O error, dev \w+|[Rr]emounting filesystem read-only|)"
         R"(nfs: server \S+ not responding(?:, timed out)?|LustreError: .*(?:evict|timed out|failed)|EXT4-fs error|)"
         R"(nvme nvme\d+: (?:I/O \d+ .*timeout|controller is down)|metadata I/O error|)"
         R"(blk_update_request: (?:I/O|critical \w+) error|critical medium error)",
     .veto =
         R"(completion polled)"},  // drivers/nvme/host/pci.c: it was done, the interrupt was lost
    // net/sunrpc/clnt.c: the same server answers again.
    {.tier = Tier::kNote,
     .phrases = {"nfs: server "},
     .pattern = R"(nfs: server (\S+) OK\b)",
     .reading = Reading::kHealed},
    {.label = "storage_io",
     .weight = 58,
     .phrases = {"Read-only file system", "Errno 30]", "transport endpoint shutdown",
                 "blocked for more than", "ead-only file system"},
     .pattern = R"([Rr]ead-only file system|Errno 30\]|transport endpoint shutdown|)"
                R"(task \S+ blocked for more than \d+ seconds)",
     // Of an image's own files, without which it goes.
     .veto = R"((?i)(?:unable|could not|cannot|can't|failed) [^\n]*(?:\.pyc\b|__pycache__))"},

    {.label = "too_many_open_files",
     .weight = 66,
     .phrases = {"oo many open files", "Errno 24]", "received 0 items of ancdata",
                 "EMFILE:", "Errno 23]", "VFS: file-max limit"},
     .pattern =
         R"([Tt]oo many open files|Errno 2[34]\]|received 0 items of ancdata|EMFILE:|VFS: file-max limit)"},

    // libshm's manager hands each tensor over as an open file
    // (torch/multiprocessing/reductions.py).
    {.label = "too_many_open_files",
     .weight = 50,
     .phrases = {"unable to open shared memory obj"},
     .pattern = R"(unable to open shared memory object </?torch_[^>]*> in read-write mode\s*$)",
     .cause =
         "A tensor of a data loader's worker could not be opened: most often the limit of open "
         "files, else another process removed it from /dev/shm"},

    {.label = "hub_offline",
     .weight = 66,
     .phrases = {"We couldn't connect to", "ouldn't connect to the Hub", "LocalEntryNotFoundError",
                 "OfflineModeIsEnabled", "host='huggingface.co'",
                 "find the requested files in the"},
     .pattern =
         R"(We couldn't connect to|LocalEntryNotFoundError|OfflineModeIsEnabled|host='huggingface\.co'|)"
         R"([Cc]annot find the requested files in the (?:disk cache|local cache|cached path)|couldn't connect to the Hub)",
     .veto = R"(thrown while requesting|Retrying \(Retry)"},
    {.label = "hub_offline",
     .weight = 62,
     .phrases = {"Max retries exceeded with url", "Couldn't reach ", "offline mode is enabled",
                 "Offline mode is enabled", "resolve 'huggingface.co", "Name or service not known"},
     .pattern =
         R"(Max retries exceeded with url|Couldn't reach (?:http|'|the Hub)|[Oo]ffline mode is enabled|)"
         R"(resolve 'huggingface\.co|(?:urlopen|urllib|requests|NewConnectionError|http|NameResolution)[^\n]*Name or service not known)",
     .veto =
         R"((?i)wandb|mlflow|comet_ml|comet\.(?:com|ml)|comet (?:warning|error|info)|telemetry|neptune|thrown while requesting|Retrying \(Retry)"},
    {.label = "hub_offline",
     .weight = 60,
     .phrases = {"Temporary failure in name", "urlopen error", "HTTPSConnectionPool",
                 "NewConnectionError(", "ConnectTimeoutError", "etwork is unreachable"},
     .pattern =
         R"((?:huggingface|hf\.co|modelscope|urlopen|http|hub|urllib|download|NewConnection|NameResolution)[^\n]*(?:Temporary failure in name|[Nn]etwork is unreachable)|)"
         R"(<urlopen error (?:\[Errno|timed out|_ssl)|(?:requests\.exceptions|urllib3)\S*: HTTPSConnectionPool|)"
         R"(NewConnectionError\(|ConnectTimeoutError)",
     .veto =
         R"((?i)wandb|mlflow|comet_ml|comet\.(?:com|ml)|comet (?:warning|error|info)|telemetry|neptune|thrown while requesting|Retrying \(Retry)"},

    {.label = "hub_offline",
     .weight = 58,
     .phrases = {"Server Error: ", "Gateway Time-out", "ReadTimeoutError", "Read timed out",
                 "httpx.Connect"},
     .pattern =
         R"(5\d\d Server Error: [^\n]*(?:huggingface|hf\.co|modelscope)|httpx\.Connect(?:Error|Timeout)|)"
         R"(HTTPS?ConnectionPool\([^\n]*Read timed out)",
     .veto =
         R"((?i)wandb|mlflow|comet_ml|comet\.(?:com|ml)|comet (?:warning|error|info)|telemetry|neptune|thrown while requesting|Retrying \(Retry|)"
         R"(Error while downloading from)"},  // it tries to resume the download

    // huggingface_hub/utils/_http.py goes on with what is cached, or tries again.
    {.label = "hub_offline",
     .tier = Tier::kNote,
     .confidence = Confidence::kSymptom,
     .phrases = {"thrown while requesting"},
     .pattern =
         R"((?:MaxRetryError|ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError|NewConnectionError)[^\n]*thrown while requesting)"},
    {.label = "hub_offline",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 35,  // above a launcher's report of an exit code, below that of a signal
     .phrases = {"s [Retry "},
     .pattern = R"(Retrying in [\d.]+s \[Retry (\d+)/(\d+)\])",
     .reading = Reading::kRetry},

    // huggingface_hub/utils/_http.py: refused or limited, not unreachable.
    {.label = "hub_offline",
     .weight = 60,
     .phrases = {"Too Many Requests for url:", "error (429 Too Many Requests)"},
     .pattern =
         R"(429 Client Error: Too Many Requests for url: \S*(?:huggingface|hf)\.co|)"
         R"((?:CAS |[Rr]eqwest|xet|hf\.co)[^\n]*status client error \(429 Too Many Requests\)|)"
         R"(status client error \(429 Too Many Requests\)[^\n]*(?:xet|hf\.co|huggingface))",
     .veto = R"((?i)thrown while requesting|Retrying)",
     .cause = "The Hub refused: too many requests (429)",
     .remedy = "download once to a path that all nodes see (huggingface-cli download NAME), then "
               "HF_HUB_OFFLINE=1; HF_TOKEN in `secrets:` raises the limit"},
    {.label = "hub_offline",
     .weight = 60,
     .phrases = {"RepositoryNotFoundError", "DatasetNotFoundError",
                 "is not a valid model identifier"},
     .pattern = R"((?:Repository|Dataset)NotFoundError: |)"
                R"(is not a local folder and is not a valid model identifier)",
     .veto = R"((?i)thrown while requesting|Retrying|: [./~]\S* is not a local folder)",
     .cause = "The Hub did not give the model or data set: a wrong name, or no access"},

    // paddle/utils/download.py, modelscope/hub/errors.py, tensorflow_datasets' downloader.py, and
    // hf_xet, whose Rust client words it in its own way.
    {.label = "hub_offline",
     .weight = 58,
     .phrases = {"failed. Retry limit reached", "modelscope.hub.errors.", "Failed to get url ",
                 "CAS service error", "HTTP status client error (", "HTTP status server error ("},
     .pattern =
         R"(Error: [^\n]*CAS service error|Error: [^\n]*HTTP status (?:client|server) error \(\d[^\n]*(?:xet|hf\.co|huggingface)|)"
         R"(Error: [^\n]*(?:CAS |[Rr]eqwest|xet|hf\.co)[^\n]*HTTP status (?:client|server) error \(\d|)"
         R"(\S+://\S+ failed\. Retry limit reached|)"
         R"(modelscope\.hub\.errors\.(?:NotExistError|RequestError|FileDownloadError)|DownloadError: Failed to get url )"},

    // transformers/configuration_utils.py, tokenization_utils_base.py, image_processing_base.py.
    {.label = "hub_offline",
     .weight = 52,
     .phrases = {"If you were trying to load it from 'http"},
     .pattern =
         R"(Can't load [^\n]{1,80} for '([^/.~'\n][^'\n]*)'\. If you were trying to load it from 'http)",
     .cause = "Neither a directory of this node nor the Hub gave '\\1': a wrong name or path, or "
              "no network"},

    {.label = "file_not_found",
     .weight = 52,
     .phrases = {"If you were trying to load it from 'http"},
     .pattern =
         R"(Can't load [^\n]{1,80} for '([/.~][^'\n]*)'\. If you were trying to load it from 'http)",
     .cause = "'\\1' is no directory with a model or tokenizer on this node"},

    // The kubelet, containerd, docker and podman, enroot (pyxis) and Apptainer, of an image.
    {.label = "hub_offline",
     .weight = 54,
     .phrases = {"Failed to pull image", "ErrImagePull", "ImagePullBackOff",
                 "pull access denied for", "manifest unknown", "failed to import docker image",
                 "from oci registry: ", "failed to pull and unpack",
                 "Error response from daemon: manifest for", "Error: initializing source docker"},
     .pattern =
         R"(Failed to pull image|ErrImagePull|ImagePullBackOff|pull access denied for|manifest unknown|)"
         R"(failed to import docker image|FATAL: +While making image from oci registry: |)"
         R"(failed to pull and unpack|Error response from daemon: manifest for|Error: initializing source docker)",
     .cause = "The container image could not be fetched: a wrong name, no access, or no network",
     .remedy =
         "docker pull IMAGE   # (or enroot import, apptainer pull) by hand on the node: correct "
         "the name and tag, or log in to the registry"},

    {.label = "permission",
     .tier = Tier::kProgram,
     .weight = 61,
     .phrases = {"GatedRepoError: ", "trying to access a gated repo"},
     .veto = R"((?i)thrown while requesting|Retrying)",
     .cause = "The Hub gives this model or data set only to users whom its owner let in",
     .remedy = "ask for access on its page, then pass HF_TOKEN by `secrets: [HF_TOKEN]`, or run "
               "huggingface-cli login on the node"},
    // botocore, google-auth and google-api-core, s3fs, azure-storage: object stores.
    {.label = "permission",
     .tier = Tier::kProgram,
     .weight = 57,
     .phrases = {"NoCredentialsError", "DefaultCredentialsError", "error occurred (AccessDenied)",
                 "error occurred (ExpiredToken)", "error occurred (InvalidAccessKeyId)",
                 "error occurred (403)", "exceptions.Forbidden: 403 ",
                 "AuthorizationPermissionMismatch"},
     .pattern =
         R"(NoCredentialsError|DefaultCredentialsError|error occurred \((?:AccessDenied|ExpiredToken|InvalidAccessKeyId|403)\)|)"
         R"(google\.(?:api_core|cloud)\.exceptions\.Forbidden: 403 |(?i:error ?code): ?AuthorizationPermissionMismatch)",
     .cause = "The object store refuses the job: no credentials, or ones that may not do this",
     .remedy = "give the credentials by `secrets:` (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or a "
               "role of the node, and try it there: aws s3 ls BUCKET"},

    // huggingface_hub/utils/_validators.py, transformers/utils/hub.py and modeling_utils.py,
    // datasets/data_files.py: a local path taken for a name, or a directory without the files.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 57,
     .phrases = {"HFValidationError: Repo id must", "does not appear to have a file named",
                 "Error no file named ", "EmptyDatasetError", "DataFilesNotFoundError",
                 "valid checkpoint found in output", "No file with name: "},
     .pattern =
         R"(HFValidationError: Repo id must be in the form [^\n]*: '[/.~]|does not appear to have a file named|)"
         R"(Error no file named \S+ *[^\n]*found in directory|EmptyDatasetError|DataFilesNotFoundError|)"
         R"(No valid checkpoint found in output directory|No file with name: \S+ found in )"},
    {.label = "file_not_found",  // torchtune/training/checkpointing/_utils.py
     .tier = Tier::kProgram,
     .weight = 58,
     .phrases = {"No file with name: "},
     .pattern = R"(No file with name: (\S+) found in (\S+?)\.?$)",
     .cause = "The checkpoint directory \\2 has no file \\1"},
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 57,
     .phrases = {" is not a local folder"},
     .pattern = R"(: [./~]\S* is not a local folder)"},
    // hydra/_internal/config_loader_impl.py.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 57,
     .phrases = {"annot find primary config", "rimary config directory not found",
                 "rimary config module"},
     .pattern =
         R"([Cc]annot find primary config '([^'\n]*)'|[Pp]rimary config directory not found|)"
         R"([Pp]rimary config module '[^'\n]*' not found)",
     .cause = "Hydra does not find the configuration that the program begins with",
     .remedy = "correct config_path and config_name of @hydra.main, or pass --config-dir DIR "
               "--config-name NAME"},
    // tensorflow/core/util/tensor_bundle and table, tensorstore's zarr driver (orbax).
    {.label = "checkpoint_corrupt",
     .tier = Tier::kProgram,
     .weight = 60,
     .phrases = {"Unable to open table file", "DataLossError: ", " driver: Metadata at "},
     .pattern =
         R"(Error: [^\n]*Unable to open table file|DataLossError: (?:Checksum does not match|Unable to read file)|)"
         R"(Error opening "?zarr3?"? driver: Metadata at [^\n]*does not exist)"},
    // torch/distributed/checkpoint/filesystem.py writes .metadata last.
    {.label = "checkpoint_corrupt",
     .tier = Tier::kProgram,
     .weight = 60,
     .phrases = {"/.metadata'"},
     .pattern = R"(No such file or directory: '[^'\n]*/\.metadata')",
     .cause =
         "The checkpoint was never completed: its .metadata, which is written last, is missing"},
    // A library's own sentence about a path, without the system's error.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 45,
     .phrases = {"ould not find", "annot find ", "nable to find", "ailed to find", "ouldn't find",
                 "an't find ", "ould not locate", "nable to locate"},
     .pattern =
         R"(^(?:\w+\.)*(?:Value|Runtime|Key|OS|IO|Assertion|Attribute)?(?:Error|Exception): )"
         R"((?:[Cc]ould not|[Cc]annot|[Uu]nable to|[Ff]ailed to|[Cc]ouldn't|[Cc]an't) (?:find|locate))"
         R"([^\n]*[\s'"](?:/|\./|\.\./|~/)[\w.])"},
    // conda/exceptions.py, libmamba; Lmod and Tcl modules; Apptainer. A script may go on behind
    // some of these, so any exception is more likely.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 38,
     .phrases = {"EnvironmentLocationNotFound", "EnvironmentNameNotFound",
                 "The given prefix does not exist"},
     .pattern = R"(Environment(?:Location|Name)NotFound: |The given prefix does not exist)",
     .cause = "The conda environment does not exist on this node",
     .remedy = "conda env list   # on the node: create it there or on a shared file system, and "
               "write its name or path in `conda:`"},
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 36,
     .phrases = {"module(s) are unknown", "locate a modulefile for",
                 "cannot be loaded as requested"},
     .pattern = R"(following module\(s\) are unknown: ?(.*)|locate a modulefile for '?([^'\n]*)|)"
                R"(module\(s\)[^\n]*cannot be loaded as requested)",
     .cause = "A module that the job loads does not exist on this node",
     .remedy = "module avail; module spider NAME   # on the node: correct name and version"},
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 40,
     .phrases = {"could not open image ", "no such file or directory"},
     .pattern =
         R"(FATAL: +could not open image (\S+)|(?:FATAL: |docker: |OCI runtime|Error: )[^\n]*no such file or directory)"},
    {.label = "activation_failed",
     .tier = Tier::kProgram,
     .weight = 38,
     .phrases = {"Run 'conda init' before", "configured to use 'conda activate'"},
     .cause = "The shell of the job does not know conda's functions, so nothing was activated",
     .remedy =
         "source \"$(conda info --base)/etc/profile.d/conda.sh\"   # before conda activate; or "
         "name the environment in `conda:` of the job file"},
    // docker's and podman's clients: nothing of the job ran.
    {.label = "unknown",
     .tier = Tier::kProgram,
     .weight = 45,
     .phrases = {"connect to the Docker daemon", "to the docker daemon socket",
                 "Cannot connect to Podman"},
     .cause = "The container runtime of this node does not run, or the job's user may not use it",
     .action = "retry_elsewhere",
     .remedy = "systemctl status docker; id   # on the node: start it, or put the user into the "
               "group docker"},
    {.label = "unknown",
     .tier = Tier::kProgram,
     .weight = 32,
     .phrases = {"OCI runtime error", "OCI runtime create failed", "OCI runtime attempted",
                 "Error response from daemon: ", "container creation failed: "},
     .pattern =
         R"((OCI runtime (?:error|create failed|attempted)[^\n]{0,160}|container creation failed: [^\n]{0,160})|)"
         R"(Error response from daemon: ([^\n]{0,160}))",
     .cause = "The container could not be started: \\1",
     .action = "retry_elsewhere",
     .remedy = "try the same command by hand on the node"},
    // dash; runc.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 36,
     .phrases = {": not found", "executable file not found in"},
     .pattern =
         R"(^(?:/bin/)?(?:ba|da)?sh: (?:line )?\d+: [^\s:]+: not found$|executable file not found in \$PATH)"},
    {.label = "file_not_found",  // as below, and it names the path
     .tier = Tier::kProgram,
     .weight = 58,
     .phrases = {"Errno 2] No such file or directory: "},
     .pattern = R"(\[Errno 2\] No such file or directory: ['"]([^'"\n]{1,200})['"])",
     .veto =
         R"((?i)^\s*(?:except|#|raise)\b|torch_extensions/|^\S*\s*\bwarn(?:ing)?\b|ignor|libcupti)",
     .cause = "\\1 does not exist on this node"},
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 58,
     .phrases = {"FileNotFoundError", "Errno 2]", "an't open file", "os error 2)",
                 "NotADirectoryError"},
     .pattern =
         R"((?:^|[\s.])(?:FileNotFound|NotADirectory)Error(?::|$)|\[Errno 2\]|[Cc]an't open file|os error 2\))",
     .veto =
         R"((?i)^\s*(?:except|#|raise)\b|torch_extensions/|\.(?:h|cuh|hpp)\b: No such|fatal error:|)"
         R"(^\S*\s*\bwarn(?:ing)?\b|ignor|libcupti|cannot open shared object)"},
    // slurmstepd and bash, of a command.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 37,
     .phrases = {"command not found", "execve(): "},
     .pattern = R"(execve\(\): ([^\s:]+): No such file|(?:^|[\s:])([^\s:]+): command not found)",
     .cause = "There is no command \\1\\2 on this node, or not in the PATH of the job",
     .remedy = "activate its environment in the script or by `conda:`, `module load` it, or give "
               "its whole path"},
    {.label = "permission",
     .tier = Tier::kProgram,
     .weight = 38,
     .phrases = {"execve(): "},
     .pattern = R"(execve\(\): ([^\s:]+): Permission denied)",
     .cause = "\\1 may not be executed on this node",
     .remedy = "chmod +x the script (git keeps that bit: git update-index --chmod=+x), or start it "
               "with its interpreter: bash FILE"},
    // A command of a script says it too, and the script may go on: any exception is more likely.
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 36,
     .phrases = {"No such file or directory", "command not found"},
     .pattern = R"(No such file or directory|command not found)",
     .veto =
         R"((?i)^\s*(?:except|#|raise)\b|torch_extensions/|\.(?:h|cuh|hpp)\b: No such|fatal error:|)"
         R"(warn|ignor|libcupti|-laio|-lcufile|cannot open shared object|going to /tmp instead|)"
         R"(^(?:rm|ls|cat|df|du|touch|chmod|mkdir): )"},
    {.label = "file_not_found",
     .tier = Tier::kProgram,
     .weight = 52,
     .phrases = {"does not exist", "Unable to find any data file", "Couldn't find a dataset",
                 "not the path to a directory", "Couldn't find any data file"},
     .pattern =
         R"((?:Error|Exception): [^\n]*(?i:file|path|directory|folder|dataset|checkpoint)[^\n]* does not exist|)"
         R"(\b(?:Error|ERROR|error)\b[^\n]*(?:file|path|directory|folder|dataset|checkpoint)[^\n]* does not exist|)"
         R"(Unable to find any data file|Couldn't find (?:a dataset|any data file))",
     .veto = R"((?i)^\s*#|warning|does not exist yet|\bno error\b|\berror: ?\d+\.\d)"},

    {.label = "permission",  // as below, and it names the path
     .tier = Tier::kProgram,
     .weight = 59,
     .phrases = {"Errno 13] Permission denied: "},
     .pattern = R"(\[Errno 13\] Permission denied: ['"]([^'"\n]{1,200})['"])",
     .veto = R"(^\s*(?:except|#|raise)\b|(?i:warning|ignor|matplotlib))",
     .cause = "The user of the job may not read or write \\1"},
    {.label = "permission",
     .tier = Tier::kProgram,
     .weight = 59,
     .phrases = {"PermissionError", "Errno 13]", "Key has expired", "Required key not available",
                 "Operation not permitted", "EACCES: ", "Errno 1]", "os error 13)"},
     .pattern =
         // ENOKEY and EKEYEXPIRED: file systems with Kerberos.
     R"(Key has expired|Required key not available|PermissionError: |EACCES: |os error 13\)|Errno 1?3?\] (?:Permission|Operation not)|)"
     R"([Oo]peration not permitted: ['"/])",
     .veto =
         R"(\(publickey|^\s*(?:except|#|raise)\b|(?i:warning|ignor|matplotlib|dmesg|nice|sched_setaffinity))"},
    {.label = "permission",  // transformers/utils/hub.py
     .tier = Tier::kProgram,
     .weight = 59,
     .phrases = {"PermissionError at "},
     .pattern = R"(PermissionError at (\S+) when downloading)",
     .cause = "The user of the job may not write the cache of the Hub at \\1",
     .remedy = "ls -ld the directory on the node; point HF_HOME at one that the job may write"},
    {.label = "permission",
     .tier = Tier::kProgram,
     .weight = 37,
     .phrases = {"ermission denied"},
     .pattern = R"([Pp]ermission denied)",
     .veto =
         R"(\(publickey|rcmd: |^\s*(?:except|#|raise)\b|(?i:warning|ignor|matplotlib|dmesg|nice|^(?:rm|ls|cat|du|find): ))"},
};

}  // namespace

std::span<const Signature> StorageSignatures() { return kStorage; }

}  // namespace launch
