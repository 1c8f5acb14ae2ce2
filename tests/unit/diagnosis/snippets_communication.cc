#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr Snippet kSnippets[] = {
    {"nccl_network",
     "[W socket.cpp:464] [c10d] The IPv4 network addresses of (gpu-00, 29500) cannot be retrieved "
     "(gai error: -2 - Name or service not known).\ntorch.distributed.DistNetworkError: The client "
     "socket has failed to connect to any network address of (gpu-00, 29500)."},
    {"nccl_network", "socket.gaierror: [Errno -2] Name or service not known"},
    {"rendezvous_timeout",
     "torch.distributed.DistNetworkError: The client socket has failed to connect to any network "
     "address of (gpu-00, 29500). The client socket has failed to connect to 10.1.1.1:29500 "
     "(errno: "
     "110 - Connection timed out)."},
    {"nccl_timeout",
     "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring "
     "enqueued collectives."},
    {"port_in_use",
     "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - "
     "Address already in use).\n[E socket.cpp:462] [c10d] The server socket has failed to listen "
     "on any local network address."},
    {"port_in_use",
     "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
     "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address "
     "already in use"},
    {"port_in_use", "OSError: [Errno 98] Address already in use"},
    {"port_in_use", "RuntimeError: Address already in use"},
    {"rendezvous_timeout",
     "[E socket.cpp:922] [c10d] The client socket has timed out after 900s while trying to connect "
     "to (10.1.2.3, 29400)."},
    {"rendezvous_timeout", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"},
    {"rendezvous_timeout",
     "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for "
     "key: store_based_barrier_key:1 (world_size=16, worker_count=12, timeout=0:30:00)"},
    {"rendezvous_timeout",
     "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
     "C10d store has failed. See inner exception for details."},
    {"rendezvous_timeout",
     "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 7/8 "
     "clients joined."},
    {"nccl_network",
     "n2:11:12 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 192.168.5.11<40221> "
     "failed : No route to host\nRuntimeError: NCCL error: unhandled system error"},
    {"nccl_network",
     "n2:11:12 [0] include/socket.h:403 NCCL WARN Connect to 10.0.0.3<51333> failed : Connection "
     "timed out"},
    {"nccl_network",
     "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving "
     "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
     "Socket Timeout"},
    {"nccl_network",
     "n1:5:6 [3] NCCL WARN socketPollConnect: connect to 10.9.8.7<44123> returned Connection "
     "refused, exceeded error retry count (35)"},
    {"nccl_network",
     "RuntimeError: Gloo connectFullMesh failed with "
     "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"},
    {"nccl_no_interface",
     "n1:5:6 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface "
     "found\nncclInternalError: Internal check failed."},
    {"nccl_no_interface",
     "n1:5:6 [0] misc/socket.cc:60 NCCL WARN ncclSocketInit: connecting to address  with family 0 "
     "is neither AF_INET(2) nor AF_INET6(10)"},
    {"nccl_no_interface",
     "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != "
     "nullptr. Unable to find address for: bond7"},
    {"nccl_version_mismatch",
     "n1:5:6 [0] init.cc:1310 NCCL WARN Mismatched NCCL version detected : rank 0 version 22005 "
     "rank 4 version 21805"},
    {"nccl_ib_error",
     "n4:81:99 [5] transport/net_ib.cc:1312 NCCL WARN NET/IB : Got completion from peer "
     "10.0.0.4<41234> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1"},
    {"nccl_ib_error",
     "n4:81:99 [5] transport/net_ib.cc:74 NCCL WARN NET/IB : Got completion with error 12, opcode "
     "1, len 0, vendor err 129"},
    {"nccl_ib_error",
     "n4:81:99 [5] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error "
     "Connection timed out"},
    {"nccl_timeout",
     "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800221 milliseconds "
     "before timing out.",
     -6},
    {"nccl_timeout",
     "[rank1]:[E318 11:22:33.123456789 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught "
     "collective operation timeout: WorkNCCL(SeqNum=4, OpType=_ALLGATHER_BASE, NumelIn=11, "
     "NumelOut=88, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.",
     -6},
    {"nccl_timeout",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:84] Timed out "
     "waiting 1800000ms for recv operation to complete"},
    {"rendezvous_timeout", "RuntimeError: connect() timed out. Original timeout was 60000 ms."},
    {"nccl_timeout_slow_rank",
     "Running tokenizer on dataset:   9%|7         | 280000/2969526 [29:55<4:48:08, 155.57 "
     "examples/s]\n[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation "
     "timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800328 "
     "milliseconds before timing out.",
     -6},
    {"nccl_timeout_slow_rank",
     "Saving model checkpoint to out/checkpoint-500\n[rank3]:[E ProcessGroupNCCL.cpp:607] [Rank 3] "
     "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=91, OpType=ALLREDUCE, "
     "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
     -6},
    {"nccl_timeout_peer_died",
     "n2:1:2 [1] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
     "n1.cluster<33512>\nncclRemoteError: A call failed possibly due to a network error or a "
     "remote process exiting prematurely."},
    {"nccl_timeout_peer_died",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Connection closed by peer "
     "[10.0.0.2]:41999"},
    {"nccl_timeout_peer_died",
     "[E socket.cpp] RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Read "
     "error [127.0.0.1]:50122: Connection reset by peer"},
    {"ssh_failure", "ssh: connect to host gpu-b port 22: Connection refused"},
    {"ssh_failure", "Host key verification failed.\npdsh@n1: n2: ssh exited with exit code 255"},
    {"ssh_failure", "user@n7: Permission denied (publickey,password).", 255},
    {"mpi_launch",
     "There are not enough slots available in the system to satisfy the 16\nslots that were "
     "requested by the application:"},
    {"mpi_launch",
     "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[11211,0],0] on node "
     "n1"},
    {"mpi_launch",
     "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:"},
    {"rendezvous_timeout",
     "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
     "PjRT_Client_Connect. Timed out task names:\n/job:jax_worker/replica:0/task:6"},
    {"rendezvous_timeout",
     "Stopping coordination service as cluster registration failed. This may be due to 1) some "
     "tasks crashed earlier before connecting"},
    {"nccl_timeout",
     "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: "
     "end_of_epoch_4::0."},
    {"nccl_timeout_peer_died",
     "absl::Status: UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout. This "
     "indicates that the remote task has failed, got preempted, or crashed unexpectedly.",
     134},
    {"nccl_timeout_peer_died",
     "[Rank 9] Process group watchdog thread terminated with exception: NCCL error: remote process "
     "exited or there was a network error, NCCL version 2.21.5",
     134},
    {"nccl_ib_error",
     "n4:8:90 [2] create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, "
     "ERROR: Invalid argument"},
    {"nccl_ib_error",
     "mlx5: n4: got completion with error:\n00000000 00000000 00000000 00000000\n00000000 08005104 "
     "0a0003f7 000030d2"},
    {"nccl_network",
     "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:212] Connect timeout "
     "[192.168.4.9]:40112"},
    {"nccl_no_interface",
     "n4:8:8 [0] transport/net_ib.cc:212 NCCL WARN NET/IB : No IP interface found."},
    {"rendezvous_timeout",
     "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
     "/default_pg/0//cuda//0"},
    {"nccl_timeout",
     "[2021-04-13 14:03:31.854741: E horovod/common/stall_inspector.cc:170] One or more rank "
     "(marked by \"!\") is stalled for longer than 600 seconds. Will shutdown."},
    {"nccl_timeout_peer_died",
     "tensorflow.python.framework.errors_impl.UnknownError: Horovod has been shut down. This was "
     "caused by an exception on one of the ranks or an attempt to allreduce, allgather or "
     "broadcast a tensor after one of the ranks finished execution."},
    {"rendezvous_timeout",
     "RuntimeError: DEADLINE_EXCEEDED: GetKeyValue() timed out with key: "
     "cuda:local_topology/cuda/1 and duration: 2m"},
    {"port_in_use",
     "RuntimeError: UNKNOWN:No address added out of total 1 resolved for '0.0.0.0:8470' "
     "{children:[UNKNOWN:Failed to add any wildcard listeners]}"},
    {"nccl_ib_error", "Failed to modify QP to RTR: Connection timed out\nerrno: 110"},
    {"nccl_ib_error", "Failed to modify QP 0x1a2 to RTS"},
    {"nccl_ib_error",
     "[n1:8] UCX  ERROR ibv_reg_mr(address=0x7f, length=8192) failed: Cannot allocate memory. "
     "Please set max locked memory (ulimit -l) to 'unlimited'"},
    {"rendezvous_timeout",
     "RuntimeError: InnerRunOpApi:OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error "
     "code "
     "is 6\nEI0006: [PID: 12] Getting socket times out. Reason: Remote Rank did not send the data "
     "in "
     "time."},
    {"nccl_timeout",
     "EI0002: The wait execution of the Notify register times out. Reason: no record came from the "
     "remote rank."},
    {"nccl_timeout",
     "RuntimeError: npuSynchronizeDevice:NPUStream.cpp:435 NPU function error: "
     "aclrtSynchronizeDevice, error code is 507046"},
    {"rendezvous_timeout",
     "ray.train.v2._internal.exceptions.WorkerGroupStartupTimeoutError: The worker group startup "
     "timed out after 30.0 seconds waiting for 2 workers. Potential causes include: (1)"},
    {"rendezvous_timeout",
     "TimeoutError: Placement group creation timed out after 100 seconds. Make sure your cluster"},
    {"rendezvous_timeout",
     "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.\n\n"
     "During handling of the above exception, another exception occurred:\n\n"
     "TimeoutError: Timed out waiting for placement groups to be ready. The cluster may not have"},
    {"rendezvous_timeout", "RuntimeError: Stop_waiting response is expected"},
};

}  // namespace

std::span<const Snippet> CommunicationSnippets() { return kSnippets; }

}  // namespace launch
