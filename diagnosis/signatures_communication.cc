// Ranks that cannot find, reach or hear each other. Sources: torch's c10d (socket.cpp,
// TCPStore.cpp, ProcessGroupNCCL.cpp, ProcessGroupGloo.cpp), torch/distributed/elastic/rendezvous,
// gloo's transport/tcp, NVIDIA/nccl src/{bootstrap,init,misc/socket,transport/net_ib}.cc, OpenSSH,
// DeepSpeed's launcher, Open MPI's help texts.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kCommunication[] = {
    {.label = "port_in_use",
     .weight = 65,
     .phrases = {"ddress already in use", "EADDRINUSE", "errno: 98", "Errno 98",
                 "port is already in use", "is already in use by"},
     .pattern = R"([Aa]ddress already in use|EADDRINUSE|[Ee]rrno:? 98\b|)"
                R"([Pp]ort \S* ?is already in use|port is already in use)",
     .veto =
         R"((?i)(?:tensorboard|jupyter|wandb|trying (?:another|next) port|using port)|NCCL WARN RAS )"},
    // gRPC's chttp2_server.cc: JAX's coordinator, Ray, TensorBoard. It logs it too where the caller
    // takes another port.
    {.label = "port_in_use",
     .weight = 60,
     .phrases = {"No address added out of total"},
     .pattern = R"(Error: [^\n]*No address added out of total \d+ resolved)",
     .veto = R"((?i)tensorboard)"},
    {.label = "port_in_use",
     .tier = Tier::kNote,
     .weight = 45,
     .phrases = {"No address added out of total"},
     .pattern = R"(No address added out of total \d+ resolved)",
     .veto = R"((?i)tensorboard)"},
    {.label = "port_in_use",
     .weight = 64,
     .phrases = {"failed to listen on any local", "already bound", "Address already",
                 "ddress  already in use", "already in use", "another process is utilizing it"},
     .pattern =
         R"(on port `?\d+`?, but another process is utilizing it|server socket has failed to listen on any local network address|)"
         R"([Pp]ort `?\d+`? (?:is )?already (?:in use|bound)|bind[^\n]{0,60}already in use)",
     .veto = R"((?i)tensorboard|jupyter|NCCL WARN RAS )"},

    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 70,
     .phrases = {"client socket has timed out", "RendezvousTimeoutError",
                 "RendezvousConnectionError", "store based barrier", "clients joined",
                 "RendezvousClosedError"},
     .pattern =
         R"(client socket has timed out after (\d+)|RendezvousTimeoutError|RendezvousConnectionError|)"
         R"([Tt]imed out initializing process group in store based barrier|\d+/\d+ clients joined|RendezvousClosedError)"},
    // ray/train (v1 and v2), xgboost_ray and nemo_rl: the workers were never all placed.
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 66,
     .phrases = {"worker group startup timed out", "Placement group creation timed out",
                 "imed out waiting for placement groups"},
     .pattern = R"(worker group startup timed out after|Placement group creation timed out|)"
                R"([Tt]imed out waiting for placement groups)",
     .cause = "Ray did not find room for all workers in time",
     .remedy = "ray status   # what is asked and what the nodes offer: fewer workers or GPUs per "
               "worker, end what still holds them, or wait for the nodes that are missing"},
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 65,
     .phrases = {"waiting for clients", "rendezvous backend has failed",
                 "failed to connect to any network", "/rendezvous", "torch.rendezvous",
                 "connection to the C10d store", "RendezvousStateError", "waiting for all nodes",
                 "join the rendezvous", "Stop_waiting response is expected"},
     .pattern =
         R"(Timed out after \d+ seconds waiting for clients|connection to the C10d store has failed|)"
         R"(Error: Stop_waiting response is expected|)"
         R"(rendezvous backend has failed|client socket has failed to connect to any network address|)"
         R"((?:imeout|imed out)[^\n]*(?:torch\.rendezvous|/rendezvous|rdzv)|)"
         R"(RendezvousStateError|Timeout waiting for all nodes|did not join the rendezvous)",
     .veto = R"((?i)retry|^\s*\[?W)"},

    {.label = "rendezvous_timeout",  // keys of the elastic agent and of init_process_group
     .tier = Tier::kSymptom,
     .weight = 69,
     .phrases = {"wait timeout after"},
     .pattern =
         R"(wait timeout after \d+ ?ms, keys: [^\n]*(?:rendezvous|torchelastic|store_based_barrier|default_pg|cuda//))"},
    // The store was there; rank 0, which writes the key, was not.
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 69,
     .phrases = {"ncclUniqueId from"},
     .pattern = R"(ncclUniqueId from \[(\d+)\] via c10d[^\n]*(?:wait timeout after|[Tt]imed out))",
     .cause = "Rank \\1 did not come to the set-up of the communicator in time"},
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 63,
     .phrases = {"connect() timed out"},  // TCPStore of torch up to 1.9
     .pattern = R"(connect\(\) timed out)"},

    // xla/tsl/distributed_runtime/coordination: JAX's and TensorFlow's tasks that meet at the
    // start, at a barrier of the program, and one that stopped answering.
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 66,
     .phrases = {"Barrier timed out. ", "cluster registration failed"},
     .pattern =
         R"(Barrier timed out\. (?:Id|Barrier_id): (?:\[Init\]|PjRT_Client_Connect|WaitForClusterReady)|)"
         R"(Stopping coordination service as cluster registration failed)"},
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 64,
     .phrases = {"GetKeyValue() timed out with key"},
     .pattern = R"(GetKeyValue\(\) timed out with key)"},
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 52,
     .phrases = {"Barrier timed out. "},
     .pattern = R"(DEADLINE_EXCEEDED: Barrier timed out\. )"},
    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kSymptom,
     .weight = 60,
     .phrases = {"heartbeat timeout. This indicates"},
     .pattern = R"(/task:(\d+) heartbeat timeout\. This indicates)",
     .cause =
         "Task \\1 stopped answering JAX's coordinator: it died, was preempted or stands still",
     .remedy = "look at the log or exit code of that task"},
    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kSymptom,
     .weight = 59,
     .phrases = {"heartbeat timeout. This indicates", "JAX distributed service detected",
                 "Failed to send RPC to coordination"},
     .cause = "Another task of JAX's job went away first, and this one was ended for it",
     .remedy = "look at the logs of the other tasks: one of them has an earlier error"},

    // src/misc/socket.cc before and after 2.26; gloo; c10d's key exchange before a communicator.
    {.label = "nccl_network",
     .tier = Tier::kSymptom,
     .weight = 68,
     .phrases = {"o route to host", "Call to connect ", "etwork is unreachable", "onnect to ",
                 "exceeded error retr", "exceeded retr", "Connect timeout ["},
     .pattern =
         R"(Call to connect (?:to \S+ )?(?:returned|timeout|failed|refused)|)"
         R"([Cc]onnect to \S+ (?:failed|returned|timeout|timed out)|exceeded (?:error )?retr(?:y|ies)|Connect timeout \[|)"
         R"((?:NCCL|gloo|Gloo|socket|c10d|pair\.cc|connect|Errno 113|Errno 101)[^\n]*(?:[Nn]o route to host|[Nn]etwork is unreachable)|)"
         R"(^[^\n]*(?:errno:? ?1?113?|\(113\))?[^\n]*[Nn]o route to host)",
     .veto =
         R"((?i)ssh: |https?://|urlopen|huggingface|urllib|HTTPSConnection|getaddrinfo.*AF_INET6|, retrying)"},
    // NCCL tries again by itself: a cause only where the run failed and nothing else is told.
    {.label = "nccl_network",
     .tier = Tier::kNote,
     .confidence = Confidence::kSymptom,
     .phrases = {", retrying"},
     .pattern = R"((?:Call to connect|connect to|: connect returned)[^\n]*, retrying)"},
    {.label = "nccl_network",
     .tier = Tier::kSymptom,
     .weight = 67,
     .phrases = {", retrying ("},
     .pattern = R"([Cc]onnect (?:to \S+ )?returned [^\n]*, retrying \((\d+)/(\d+)\))",
     .reading = Reading::kRetry},
    {.label = "nccl_network",
     .tier = Tier::kSymptom,
     .weight = 66,
     .phrases = {"Socket Timeout", "onnectFullMesh failed", "wait timeout after",
                 "Connection timed out", "onnection refused", "Software caused connection"},
     .pattern =
         R"(Socket Timeout|connectFullMesh failed|wait timeout after \d+ ?ms|)"
         R"((?:NCCL|gloo|pair\.cc|socket|connect|TCPStore|DistNetworkError)[^\n]*(?:Connection (?:timed out|refused)|connection refused)|)"
         R"(Software caused connection abort)",
     .veto =
         R"((?i)ssh: |https?://|urlopen|urllib|HTTPSConnection|mysql|postgres|redis|wandb|plm|ORTE|, retrying|\[W[ \d]|client socket has|failed to connect to \S+ \(errno)"},
    {.label = "nccl_network",
     .tier = Tier::kSymptom,
     .weight = 55,
     .phrases = {"ncclUniqueId from", "Proxy Call to rank", "socketStartConnect", "getaddrinfo"},
     .pattern =
         R"(Proxy Call to rank \d+ failed \(Connect\)|ncclUniqueId from \[\d+\] via c10d|socketStartConnect: Connect to|)"
         R"((?:NCCL|Gloo|gloo|c10d)[^\n]*getaddrinfo)",
     .cause = "A rank could not get through to rank 0 while the communicator was set up"},
    // c10d's socket.cpp; getaddrinfo's answers for a name without an address (-3 is a failure of
    // the moment). Where only IPv6 is told, IPv4 may have gone well.
    {.label = "nccl_network",
     .tier = Tier::kSymptom,
     .weight = 71,
     .phrases = {"IPv4 network addresses of", "gaierror: "},
     .pattern =
         R"(IPv4 network addresses of \(([^,()]+), \d+\) cannot be retrieved \(gai error: -[25]\b|)"
         R"(gaierror: \[Errno -[25]\])",
     .cause = "A host name has no address on this node",
     .action = "no_retry",
     .remedy = "getent hosts NAME   # on every node; correct the name, /etc/hosts or DNS, or give "
               "the address itself"},
    {.label = "nccl_network",
     .tier = Tier::kNote,
     .weight = 66,
     .phrases = {"IPv6 network addresses of"},
     .pattern =
         R"(IPv6 network addresses of \(([^,()]+), \d+\) cannot be retrieved \(gai error: -2\b)",
     .cause = "A host name has no address on this node",
     .action = "no_retry",
     .remedy = "getent hosts NAME   # on every node; correct the name, /etc/hosts or DNS, or give "
               "the address itself"},

    {.label = "nccl_no_interface",
     .weight = 70,
     .phrases = {"no socket interface found", "neither AF_INET", "Bootstrap : no ",
                 "o interface found", "usable interface", "listening interface found",
                 "no device found", "Unable to find address for", "Unable to find interface for",
                 "No IP interface found"},
     .pattern =
         R"(no socket interface found|neither AF_INET|Bootstrap : no |NET/Socket ?: no interface found|)"
         R"(No (?:usable listening |IP )?interface found|no usable interface|)"
         R"(no device found (?:matching|after excluding)|Unable to find (?:address|interface) for)"},
    {.label = "nccl_no_interface",
     .weight = 60,
     .phrases = {"Unable to resolve interface", "makeDeviceForInterface", "GLOO_SOCKET_IFNAME",
                 "unable to find interface"},
     .pattern = R"(makeDeviceForInterface\(\)|[Uu]nable to (?:resolve|find) interface|)"
                R"(GLOO_SOCKET_IFNAME[^\n]*(?:not found|invalid|does not exist))"},

    {.label = "nccl_version_mismatch",
     .weight = 72,
     .phrases = {"Mismatched NCCL version", "NCCL version mismatch", "rong type 3 != 4",
                 "wrong type 4 != 3", "mismatch in info from procs"},
     .pattern =
         R"(Mismatched NCCL version detected ?: rank (\d+) version (\d+)|NCCL version mismatch|)"
         R"([Ww]rong type [34] != [34]|Mismatched NCCL version)"},

    // src/transport/net_ib.cc: "Got completion ... with error" up to 2.17, "with status=" later.
    {.label = "nccl_ib_error",
     .weight = 68,
     .phrases = {"NET/IB : Got completion", "NET/IB: Got completion", "vendor err ",
                 "vendor_err=", "Got async event", "NET/IB/GIN: Got"},
     .pattern =
         R"(NET/IB\S* ?: ?Got completion|completion with (?:error|status)[^\n]*vendor.err|Got completion from peer[^\n]*vendor.err|)"
         R"(Got async event ?: ?(?:port error|.*fatal|.*port_err))"},
    {.label = "nccl_ib_error",
     .weight = 63,
     .phrases = {"Call to ibv_reg_mr", "set max locked memory (ulimit"},  // NCCL, UCX's ib_md.c
     .pattern =
         R"(Call to ibv_reg_mr\w* failed[^\n]*Cannot allocate memory|)"
         R"((?:[Ff]ailed|ERROR|[Cc]annot allocate)[^\n]{0,160}set max locked memory \(ulimit -l\))",
     .cause =
         "NCCL may not lock memory for the adapter: the limit of locked memory (ulimit -l) is low",
     .action = "no_retry"},
    {.label = "nccl_ib_error",  // perftest, UCX, UCCL and other users of verbs
     .weight = 60,
     .phrases = {"ailed to modify QP "},
     .pattern = R"([Ff]ailed to modify QP [^\n]{0,20}to (?:INIT|RTR|RTS))"},
    {.label = "nccl_ib_error",
     .weight = 62,
     .phrases = {"NET/IB : Unable to", "NET/IB: Unable to", "Call to ibv_", "ibv_post_",
                 "ibv_poll_cq", "NET/IB: Fatal"},
     .pattern =
         R"(NET/IB ?: Unable to (?:open|query) (?:device|port)|Call to ibv_\w+ failed|ibv_post_\w+\(\) failed|)"
         R"(ibv_poll_cq[^\n]*fail|NET/IB: Fatal)"},
    // aws-ofi-nccl over libfabric (EFA); rdma-core's providers/mlx5/cq.c.
    {.label = "nccl_ib_error",
     .weight = 61,
     .phrases = {"NCCL WARN NET/OFI ", "got completion with error"},
     .pattern =
         R"(NCCL WARN NET/OFI (?:Request[^\n]* completed with error|Unable to register memory|Couldn't open |)"
         R"(Creating new endpoint[^\n]* failed)|(?:^|: )got completion with error)"},
    {.label = "nccl_ib_error",
     .weight = 60,
     .phrases = {"transport retry counter exceeded", "port module event", "Port module event",
                 "RETRY_EXC_ERR", "mlx5_core", "Transport retry count exceeded"},
     .pattern =
         R"(transport retry counter exceeded|RETRY_EXC_ERR|[Tt]ransport retry count exceeded|)"
         R"(mlx5_core[^\n]*(?:[Pp]ort module event[^\n]*(?:unplugged|error|[Hh]igh [Tt]emp)|Link down|health compromised|FATAL))"},

    // ProcessGroupNCCL.cpp: "caught collective operation timeout" since 1.8, "[Rank 3]" later;
    // gloo's waits; Horovod and DeepSpeed pass the same on.
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 60,
     .phrases = {"collective operation timeout", "WorkNCCL(", "Watchdog caught", "watchdog timeout",
                 "before timing out"},
     .pattern =
         R"(caught collective operation timeout|WorkNCCL\([^)]*Timeout\(ms\)=\d+[^\n]*timing out|)"
         R"(ran for \d+ milliseconds before timing out|[Ww]atchdog timeout)"},
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 55,
     .phrases = {"monitoredBarrier", "ms for recv operation", "ms for send operation",
                 "to timeout or exception", "NCCL operations have failed", "collective timeout",
                 // The heartbeat monitor of ProcessGroupNCCL.cpp, torch 2.2 to 2.8.
                 "atchdog got stuck", "ProcessGroupNCCL watchdog hang",
                 "eartbeat monitor timed out", "no heartbeat of its watchdog"},
     .pattern =
         R"(failed to pass monitoredBarrier|Timed out waiting \d+ms for (?:recv|send) operation|)"
         R"(to timeout or exceptions? in watchdog|Some NCCL operations have failed or timed out|)"
         R"(collective timeout|[Ww]atchdog got stuck|due to ProcessGroupNCCL watchdog hang|)"
         R"([Hh]eartbeat monitor timed out|detected no heartbeat of its watchdog)"},
    // horovod/common/stall_inspector.cc and common.h (SHUT_DOWN_ERROR).
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 58,
     .phrases = {"seconds. Will shutdown"},
     .pattern = R"(stalled for longer than (\d+) seconds\. Will shutdown(?:\.|$))",
     .cause = "A rank did not take part in a collective for \\1 s, and Horovod ended the run",
     .remedy = "look at the logs of the ranks that stand under 'Missing ranks': late, dead, or in "
               "another branch; HOROVOD_STALL_SHUTDOWN_TIME_SECONDS allows for longer waits"},
    {.label = "nccl_timeout",
     .tier = Tier::kNote,
     .weight = 45,
     .phrases = {"waiting for remainder of ranks"},
     .cause = "Ranks waited in a collective for others that did not submit the same tensors"},
    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kSymptom,
     .weight = 57,
     .phrases = {"Horovod has been shut down"},
     .pattern = R"(Horovod has been shut down\. This (?:was|has been) caused)"},
    // HCCL of Ascend's NPUs (its error codes), torch_npu.
    {.label = "rendezvous_timeout",
     .tier = Tier::kSymptom,
     .weight = 62,
     .phrases = {"Getting socket times out"},
     .pattern = R"(EI\d{4}[^\n]*Getting socket times out|Getting socket times out\. Reason)",
     .cause = "A rank did not come to the set-up of an HCCL communicator in time (EI0006)",
     .remedy = "look at the logs of the other ranks for an earlier error; HCCL_CONNECT_TIMEOUT=600 "
               "where they are only slow"},
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 54,
     .phrases = {"of the Notify register times out", "Stream synchronize timeout",
                 "aclrtSynchronizeDevice, error code is 507046"},
     .pattern = R"(of the Notify register times out|aclrtSynchronizeDevice, error code is 507046|)"
                R"((?:E[A-Z]\d{4}|[Ee]rror|ERROR|failed)[^\n]*Stream synchronize timeout)",
     .cause = "A collective on the NPUs timed out: some rank did not take part in time",
     .remedy = "look at the logs of all ranks for an earlier error, and in ~/ascend/log; "
               "HCCL_EXEC_TIMEOUT=3600 where one is only slow"},
    {.label = "unknown",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 40,
     .phrases = {"HCCL function error: ", "NPU function error: ", "OPS function error: Hccl",
                 "HCCL error in: "},
     .pattern =
         R"(Error: [^\n]*(?:HCCL function error: |NPU function error: |OPS function error: Hccl|HCCL error in: ))",
     .cause = "HCCL or the NPU reports an error; its own line (EI..., EE..., EH...) says which",
     .remedy = "look for such a line behind it and in ~/ascend/log of each node"},
    // How far a rank came, beside its watchdog's own line.
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 50,
     .phrases = {"last enqueued work: ", "last enqueued NCCL work: "}},
    // torch's desync report and its analysis of the flight recorder name the rank themselves.
    {.label = "nccl_timeout",
     .tier = Tier::kSymptom,
     .weight = 62,
     .phrases = {"that caused the desync", "Not all ranks joining collective"},
     .pattern = R"(ranks that caused the desync are|Not all ranks joining collective)"},
    {.label = "nccl_timeout",
     .tier = Tier::kWrapper,
     .confidence = Confidence::kSymptom,
     .weight = 50,
     .phrases = {"communicator was aborted", "NCCL operations have failed",
                 "watchdog thread terminated", "Application timeout caused"},
     .pattern =
         R"(NCCL communicator was aborted|NCCL operations have failed or timed out|)"
         R"(watchdog thread terminated with exception|Application timeout caused pair closure)"},
    // gloo and c10d: ruling 37's case of a name that resolves to no address of this host.
    {.label = "nccl_no_interface",
     .weight = 60,
     .phrases = {"Unable to resolve hostname to"},
     .pattern = R"(Unable to resolve hostname to a (?:\(?local\)? )?address)",
     .cause = "The host's own name resolves to no address of it, so gloo knows no interface"},
    // torch's desync debug and the wrapper group of TORCH_DISTRIBUTED_DEBUG=DETAIL.
    {.label = "nccl_timeout",
     .tier = Tier::kRoot,
     .weight = 40,
     .phrases = {"Detected mismatch between collectives", "mismatched collective"},
     .pattern = R"(Detected mismatch between collectives on ranks|mismatched collective)",
     .cause = "The ranks called different collectives: the program's branches differ between ranks",
     .action = "no_retry"},

    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kSymptom,
     .weight = 64,
     .phrases = {"osed by remote peer", "ncclRemoteError", "onnection reset by peer",
                 "Connection closed by peer", "remote process exiting",
                 "onnection reset by remote"},
     .pattern =
         R"([Cc]onnection closed by (?:remote )?peer|ncclRemoteError|)"
         R"((?:NCCL|gloo|pair\.cc|TCPStore|c10d|DistBackend|ncclSocket|Call to recv|read|recv|store|rank|Socket)[^\n]*[Cc]onnection reset by peer|)"
         R"(remote process exiting prematurely|[Cc]onnection reset by remote peer)",
     .veto = R"((?i)ssh|https?://|urllib|HTTPSConnection|requests\.exceptions|retrying)"},
    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kSymptom,
     .weight = 58,
     .phrases = {"keep-alive heartbeat", "emote process has ", "process has terminated",
                 "eer has terminated", "Call to recv ", "Broken pipe",
                 "remote process exited or there"},
     .pattern =
         R"(failed to send a keep-alive heartbeat|remote process exited or there was a network error|remote (?:process|peer) has (?:exited|terminated|died)|)"
         R"((?:NCCL|ncclSocket|TCPStore|sendBytes|gloo|pair\.cc)[^\n]*Broken pipe|Call to recv from \S+ failed)"},
    {.label = "nccl_timeout_peer_died",
     .tier = Tier::kNote,  // torch 2.8 also warns of it at a healthy end
     .weight = 52,
     .phrases = {"rendezvous shutdown", "failed to shutdown", "Failed to recv, got 0 bytes",
                 "TCPStore server has shut", "recvValue failed", "failed to recv"},
     .pattern =
         R"(Failed to recv, got 0 bytes|TCPStore server has shut|recvValue failed|failed to recv)"},

    {.label = "ssh_failure",
     .weight = 66,
     .phrases = {"ssh: connect to host", "Host key verification", "Permission denied (publickey",
                 "ssh: Could not resolve", "_exchange_identification", "not reachable via ssh"},
     .pattern =
         R"(ssh: connect to host (\S+)|Host key verification failed|Permission denied \(publickey|)"
         R"(ssh: Could not resolve hostname (\S+)|\w+_exchange_identification|host=(\S+) was not reachable via ssh)"},
    {.label = "ssh_failure",
     .weight = 60,
     .phrases = {"ssh exited with", "REMOTE HOST IDENTIFICATION", "ssh: command not found",
                 "pdsh: command", "' returned non-zero exit status 255", "rcmd: socket: "},
     .pattern =
         R"(ssh exited with exit code 255|rcmd: socket: Permission denied|REMOTE HOST IDENTIFICATION HAS CHANGED|ssh: command not found|)"
         R"('?ssh\b[^\n]*returned non-zero exit status 255)"},

    // Open MPI's help-*.txt, PRRTE, MPICH's Hydra.
    {.label = "mpi_launch",
     .weight = 66,
     .phrases = {"not enough slots available", "ORTE was unable", "ORTE has lost",
                 "complete a TCP connection", "PRTE has lost", "ORTE daemon has unexpectedly"},
     .pattern =
         R"(not enough slots available|ORTE was unable to|ORTE has lost communication|)"
         R"(unable to complete a TCP connection|PRTE has lost|ORTE daemon has unexpectedly)"},
    {.label = "mpi_launch",
     .weight = 58,
     .phrases = {"ORTE does not know how to route", "PRTE does not know how to route"}},
    {.label = "mpi_launch",
     .weight = 58,
     .phrases = {"mpirun was unable", "mpiexec was unable", "looks like MPI_INIT failed",
                 "ORTE_ERROR_LOG", "prterun was unable", "PMIX ERROR"},
     .pattern =
         R"(mpi(?:run|exec) was unable to|prterun was unable|looks like MPI_INIT failed|ORTE_ERROR_LOG|)"
         R"(PMIX ERROR: (?:UNREACHABLE|NO-PERMISSIONS|ERROR))"},
    {.label = "mpi_launch",  // before the ranks have met; behind that it is a symptom
     .weight = 55,
     .phrases = {"error occurred in MPI_Init", "before MPI_INIT completed", "PMI2_Init failed",
                 "It looks like orte_init failed", "not built with SLURM's PMI",
                 "no allocated resources for the app", "binding more processes than cpus"},
     .pattern =
         R"(error occurred in MPI_Init|before MPI_INIT completed|PMI2_Init failed|)"
         R"(It looks like orte_init failed|not built with SLURM's PMI|no allocated resources for the app|)"
         R"(binding more processes than cpus)"},
    {.label = "nccl_timeout_peer_died",  // Open MPI's help-mpi-btl-tcp.txt
     .tier = Tier::kSymptom,
     .weight = 50,
     .phrases = {"peer process has unexpectedly disc"}},
    {.label = "mpi_launch",
     .weight = 56,
     .phrases = {"HYDU_sock_connect", "HYDT_bscd", "daemon (pid ", "mpirun has detected an attempt",
                 "All nodes which are allocated"},
     .pattern =
         R"(HYDU_sock_connect|HYDT_bscd\w*|[Aa] daemon \(pid \d+\) died unexpectedly|)"
         R"(mpirun has detected an attempt to run as root|All nodes which are allocated for this job are already filled)"},

    // What the late rank was doing; a bar at its end is no longer doing it.
    {.tier = Tier::kNote,
     .phrases = {"Running tokenizer", "Tokenizing", "Generating ", "Saving model checkpoint",
                 "building index", "num_proc="},
     .pattern = R"(Running tokenizer|[Tt]okenizing|Generating \w+ split|Saving model checkpoint|)"
                R"(building index|Map \(num_proc=)",
     .veto = R"(100%)",
     .reading = Reading::kBusy},
    {.tier = Tier::kNote,
     .phrases = {"Loading checkpoint shards", "Evaluating", "Evaluation", "aving checkpoint",
                 "Preprocessing", "Validation"},
     .pattern =
         R"(Loading checkpoint shards: +\d|[Ee]valuating|Running [Ee]valuation|[Ss]aving checkpoint|)"
         R"((?i)preprocessing|Validation)",
     .veto = R"(100%|Validation failed)",
     .reading = Reading::kBusy},
    {.tier = Tier::kNote,
     .phrases = {"sanity checking", "Sanity Checking", "Grouping texts", "indexing ", "Indexing ",
                 "examples/s]"},
     .pattern =
         R"((?i)sanity checking|grouping texts|\bindexing (?:\w+ )?(?:data|file|sample|doc|corpus|shard)|)"
         R"(\d+%\|[^\n]*examples/s\])",
     .veto = R"(100%)",
     .reading = Reading::kBusy},
    {.tier = Tier::kNote,
     .phrases = {"validating", "Validating", "downloading ", "Downloading ", "compiling ",
                 "generating "},
     .pattern = R"((?i)\bvalidating\b|\bdownloading (?:\w+ )?(?:model|data|dataset|shard)|)"
                R"(generating (?:samples|images|embeddings|features))",
     .veto = R"(100%)",
     .reading = Reading::kBusy},
    // A progress bar that counts data, not steps (tqdm's unit).
    {.tier = Tier::kNote,
     .phrases = {"\u2588\u2588\u2588", "#######", "%|      "},
     .pattern =
         R"(\d+%\|[^\n]*\[[^\n]*[\d.]+ ?[kMGT]?(?:i?B|examples|files|lines|docs|rows|samples|tokens|shards|ex|records|batches)/s)",
     .veto = R"(100%)",
     .reading = Reading::kBusy},
};

}  // namespace

std::span<const Signature> CommunicationSignatures() { return kCommunication; }

}  // namespace launch
