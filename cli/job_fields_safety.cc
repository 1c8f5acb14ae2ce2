#include <csignal>

#include "cli/job_fields.h"

namespace launch {
namespace {

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName kSignals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT},
                                   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM},
                                   {"ALRM", SIGALRM}, {"CONT", SIGCONT}};

// "USR1@120s", "SIGUSR1", "USR1@120" (Slurm's seconds).
Result<void> SetSignal(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  const std::size_t at = text.find('@');
  std::string name = text.substr(0, at);
  if (name.starts_with("SIG")) name.erase(0, 3);
  std::vector<std::string> names;
  std::optional<int> number;
  for (const SignalName& signal : kSignals) {
    names.emplace_back(signal.name);
    if (signal.name == name) number = signal.number;
  }
  if (!number) return NotOneOf(value, name, names);
  Millis before{0};
  if (at != std::string::npos) {
    const std::string ahead = text.substr(at + 1);
    if (const auto seconds = ParseInt(ahead); seconds && *seconds >= 0 && *seconds < 1000000) {
      before = Millis(*seconds * 1000);
    } else {
      const Result<Millis> parsed = ParseDuration(ahead);
      if (!parsed) return Unexpected(value.Place(parsed.error()));
      before = *parsed;
    }
  }
  draft.spec.checkpoint.signal = number;
  draft.spec.checkpoint.signal_before = before;
  return {};
}

Result<void> SetResume(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  if (text != "auto" && text != "never") return NotOneOf(value, text, {"auto", "never"});
  draft.spec.checkpoint.resume = text == "auto";
  return {};
}

Result<void> SetFormat(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  const std::vector<std::string> formats = {
      "auto", "torch", "dcp", "deepspeed", "hf", "accelerate", "lightning", "megatron", "marker"};
  for (const std::string& format : formats) {
    if (format != text) continue;
    draft.spec.checkpoint.format = text;
    return {};
  }
  return NotOneOf(value, text, formats);
}

Result<void> SetEvents(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> events, value.Texts());
  const std::vector<std::string> known = {"node_failure", "preempted", "gpu_error", "hang", "oom"};
  for (const std::string& event : events) {
    bool found = false;
    for (const std::string& name : known) found = found || name == event;
    if (!found) return NotOneOf(value, event, known);
  }
  draft.spec.retry.on_events = std::move(events);
  return {};
}

Result<void> SetExitCodes(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, value.Texts());
  std::vector<int> codes;
  for (const std::string& text : texts) {
    const auto code = ParseInt(text);
    if (!code || *code < 1 || *code > 255)
      return value.Bad("needs exit codes of 1 to 255, found `" + text + "`");
    codes.push_back(static_cast<int>(*code));
  }
  draft.spec.retry.recover_on_exit_codes = std::move(codes);
  return {};
}

constexpr JobField kSafetyFields[] = {
    {"checkpoint.dir", "checkpoint_dir checkpoint_storage", "path", "no resume",
     "Where the script saves; $VAR is expanded on the node, relative paths count from workdir.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       std::string& dir = draft.spec.checkpoint.dir;
       LAUNCH_ASSIGN_OR_RETURN(dir, value.Text());
       if (dir.starts_with("~")) dir = AbsolutePath(dir, draft.base_dir);
       return {};
     }},
    {"checkpoint.format", "",
     "auto | torch | dcp | deepspeed | hf | accelerate | lightning | megatron | marker", "auto",
     "How a complete checkpoint is told from a torn one.", SetFormat},
    {"checkpoint.resume", "", "auto | never", "auto",
     "Whether attempts get LAUNCH_RESUME_FROM, the newest complete checkpoint: the first too, "
     "where dir has one from before.",
     SetResume},
    {"checkpoint.complete_marker", "", "file name", "unset",
     "A file whose presence makes a directory a complete checkpoint.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.checkpoint.complete_marker, value.Text());
       return {};
     }},
    {"checkpoint.signal", "", "USR1@120s", "none",
     "Signal to the ranks this long before they are ended: before `time`, or after a cancel.",
     SetSignal},
    {"retry.max", "max_restarts max_restarts_on_errors", "N",
     "2 for the infrastructure's faults, 0 for yours",
     "How often the job is started again, counted apart for faults of the infrastructure (anew "
     "from each newer checkpoint) and for those of the program. Alone: after every failure but "
     "those that end the same "
     "way each time (an exception of Python) and a SIGTERM from outside without `checkpoint.dir`; "
     "`recover_on_exit_codes` names what is tried again all the same.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::int64_t number, value.Integer(0, 1000));
       draft.spec.retry.max = static_cast<int>(number);
       return {};
     }},
    {"retry.on_events", "", "list of node_failure, preempted, gpu_error, hang, oom", "all of them",
     "Causes that are worth a retry.", SetEvents},
    {"retry.recover_on_exit_codes", "", "list of N", "none",
     "Exit codes by which the script itself asks for a retry.", SetExitCodes},
    {"retry.backoff", "", "duration", "0s", "Wait before a retry.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.retry.backoff, value.Duration());
       return {};
     }},
    {"retry.no_progress_max", "", "N", "2",
     "Retries without a new checkpoint before the job fails.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::int64_t number, value.Integer(1, 1000));
       draft.spec.retry.no_progress_max = static_cast<int>(number);
       return {};
     }},
    {"requeue", "", "true | false", "unset",
     "Slurm's word: true is `retry: {max: 2, on_events: [node_failure, preempted]}`.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(bool again, value.Bool());
       draft.spec.retry.max = again ? 2 : 0;
       if (again) draft.spec.retry.on_events = {"node_failure", "preempted"};
       return {};
     }},
    {"requeue_after", "", "duration", "unset",
     "Ranks on a silent node end themselves after this time, so that the job may start elsewhere.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(const Millis after, value.Duration());
       constexpr Millis kLeast{5 * 60 * 1000};  // shorter ones end ranks for a busy switch
       if (after < kLeast) return value.Bad("is shorter than 5m", "write requeue_after: 10m");
       draft.spec.requeue_after = after;
       return {};
     }},
    {"on_oom", "", "auto | replan | fail", "auto",
     "What is done after a GPU out-of-memory error: plans of less memory, at most three, or none.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.on_oom,
                               Choice(value, ParseOnOom, {"auto", "replan", "fail"}));
       return {};
     }},
    {"time", "max_duration time_limit", "duration", "no limit",
     "Longest run: 12h, 1d12h, HH:MM:SS, D-HH:MM:SS.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.time_limit, value.Duration());
       return {};
     }},
    {"stop_duration", "", "duration", "2m", "Between SIGTERM and SIGKILL.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.stop_duration, value.Duration());
       return {};
     }},
    {"hang.after", "", "duration", "10m", "Silence that counts as a hang.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.hang.after, value.Duration());
       return {};
     }},
    {"hang.action", "", "diagnose | restart | none", "diagnose", "What happens then.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.hang.action,
                               Choice(value, ParseHangAction, {"diagnose", "restart", "none"}));
       return {};
     }},
    {"preflight.level", "", "none | quick | full", "quick", "How much is checked before the start.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.preflight,
                               Choice(value, ParsePreflightLevel, {"none", "quick", "full"}));
       return {};
     }},
    {"preflight.network", "", "skip | warn | require", "warn", "What a slow or broken route means.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.preflight_network,
                               Choice(value, ParseNetworkCheck, {"skip", "warn", "require"}));
       return {};
     }},
};

constexpr JobField kLater[] = {
    {"deadline", "", "", "", "Choose the number of nodes by a time to be done.", nullptr},
    {"repos", "", "", "", "Fetch workdir from repositories.", nullptr},
    {"queue", "partition resource_pool", "", "", "Named queues.", nullptr},
    {"account", "project workspace", "", "", "Accounts and quotas.", nullptr},
    {"qos", "", "", "", "Service classes.", nullptr},
    {"preemptible", "", "", "", "Whether other jobs may take its place.", nullptr},
    {"reservation", "", "", "", "Reserved nodes.", nullptr},
    {"searcher", "", "", "", "Determined's search for parameters.", nullptr},
    {"topology", "segment switches placement", "", "", "Blocks, racks and switches.", nullptr},
    {"spares", "", "", "", "Nodes held ready.", nullptr},
    {"ports", "", "", "", "Ports to publish.", nullptr},
    {"logs.path", "", "", "", "Log files at a path of yours.", nullptr},
    {"logs.tee", "", "", "", "Ranks shown by default.", nullptr},
    {"utilization_policy", "", "", "", "End jobs that leave their GPUs idle.", nullptr},
    {"notify", "mail-type", "", "", "Tell somebody.", nullptr},
    {"log_policies", "", "", "", "Determined's rules on log lines.", nullptr},
    {"compat", "", "", "", "Twins of other schedulers' variables.", nullptr},
};

}  // namespace

std::span<const JobField> SafetyFields() { return kSafetyFields; }
std::span<const JobField> LaterFields() { return kLater; }

}  // namespace launch
