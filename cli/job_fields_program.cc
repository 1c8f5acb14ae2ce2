#include <algorithm>

#include "cli/job_fields.h"
#include "cli/shell_words.h"
#include "common/progress_pattern.h"
#include "planner/line/launcher_words.h"

namespace launch {
namespace {

// Determined's `entrypoint: [python, train.py]`, and the same behind any key, is one command in
// words, not a list of commands: as a line of its own such a program would wait for its input.
bool IsOneCommand(const std::vector<std::string>& items) {
  constexpr std::array<std::string_view, 5> kTakeAProgram = {"torchrun", "deepspeed", "accelerate",
                                                             "bash", "sh"};
  if (items.size() < 2) return false;
  const std::string_view program = items.front();
  if (program.find_first_of(" \t\n") != std::string_view::npos) return false;
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return IsPython(name) || std::ranges::find(kTakeAProgram, name) != kTakeAProgram.end();
}

// Text as a block, or a list of lines (dstack's `commands`).
Result<std::string> ShellText(const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> lines, value.Texts());
  std::string text;
  const bool in_words = value.written() == "entrypoint" || IsOneCommand(lines);
  if (in_words && value.node().kind == YamlNode::Kind::kList)
    text = JoinWords(lines);
  else
    for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  if (text.find_first_not_of(" \t\n") == std::string::npos) return value.Bad("is empty");
  return text;
}

Result<void> AddEnv(JobDraft& draft, const FieldValue& value, const YamlNode& at, EnvEntry entry) {
  if (!IsVariableName(entry.name))
    return value.BadItem(at, "`" + entry.name + "` is not the name of a variable");
  auto& env = draft.spec.env;
  const auto same =
      std::find_if(env.begin(), env.end(), [&](const EnvEntry& e) { return e.name == entry.name; });
  if (same == env.end()) {
    env.push_back(std::move(entry));
    return {};
  }
  if (!draft.on_command_line) return value.BadItem(at, "sets " + entry.name + " twice");
  *same = std::move(entry);
  return {};
}

EnvEntry FromText(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Result<void> SetEnv(JobDraft& draft, const FieldValue& value) {
  const YamlNode& node = value.node();
  if (node.kind == YamlNode::Kind::kNull) return {};
  if (node.kind == YamlNode::Kind::kMap) {
    for (const auto& [key, text] : node.entries) {
      EnvEntry entry{key.scalar, std::nullopt};
      if (text.kind == YamlNode::Kind::kScalar)
        entry.value = text.scalar;
      else if (text.kind != YamlNode::Kind::kNull)
        return value.BadItem(text, key.scalar + " needs one value");
      LAUNCH_RETURN_IF_ERROR(AddEnv(draft, value, key, std::move(entry)));
    }
    return {};
  }
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> texts, value.Texts());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const YamlNode& at = node.kind == YamlNode::Kind::kList ? node.items[i] : node;
    LAUNCH_RETURN_IF_ERROR(AddEnv(draft, value, at, FromText(texts[i])));
  }
  return {};
}

// Paths in the file count from its directory (venv: from workdir, once that is known); paths of the
// command line from where the user stands.
std::string PathNow(const JobDraft& draft, const std::string& text) {
  return draft.on_command_line ? AbsolutePath(text, draft.base_dir) : text;
}

// A caller who names another interpreter on the command line means that one instead.
void DropInterpreter(JobDraft& draft) {
  if (!draft.on_command_line) return;
  draft.spec.venv.clear();
  draft.spec.conda.clear();
  draft.spec.python.clear();
  draft.spec.image.clear();
}

Result<Mount> ReadMount(const JobDraft& draft, const FieldValue& value, const std::string& text) {
  Mount mount;
  std::string rest = text;
  if (rest.ends_with(":ro") || rest.ends_with(":rw")) {
    mount.read_only = rest.ends_with(":ro");
    rest.resize(rest.size() - 3);
  }
  const std::size_t colon = rest.find(':');
  mount.source = rest.substr(0, colon);
  // What starts with a variable is known on the node only.
  if (!mount.source.starts_with('$')) mount.source = AbsolutePath(mount.source, draft.base_dir);
  mount.target = colon == std::string::npos ? mount.source : rest.substr(colon + 1);
  if (rest.empty() || !mount.target.starts_with('/') || mount.target.find(':') != std::string::npos)
    return value.Bad("needs SOURCE:TARGET or SOURCE:TARGET:ro with an absolute target, found `" +
                     text + "`");
  return mount;
}

Result<void> SetMounts(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> texts, value.Texts());
  draft.spec.mounts.clear();
  for (const std::string& text : texts) {
    LAUNCH_ASSIGN_OR_RETURN(Mount mount, ReadMount(draft, value, text));
    draft.spec.mounts.push_back(std::move(mount));
  }
  return {};
}

constexpr JobField kProgramFields[] = {
    {"run", "entrypoint commands command", "bash text", "required",
     "The training command; a torchrun line is taken apart and its ranks are started directly.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.run, ShellText(value));
       return {};
     }},
    {"setup", "", "bash text", "none", "Runs once per node before the ranks; its failure is SETUP.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.setup, ShellText(value));
       return {};
     }},
    {"launcher", "", "auto | process | torchrun | deepspeed | accelerate | mpi | node", "auto",
     "How `run` is started: process, once per rank; node, once per node as it is; torchrun, "
     "deepspeed, accelerate, that program once per node.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(
           draft.spec.launcher,
           Choice(value, ParseLauncherKind,
                  {"auto", "process", "torchrun", "deepspeed", "accelerate", "mpi", "node"}));
       return {};
     }},
    {"workdir", "working_dir", "path", "the directory of the file",
     "Where `run` starts; in place where every node of the job sees it, else a copy "
     "(docs/workdir.md).",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       draft.spec.workdir = AbsolutePath(text, draft.base_dir);
       return {};
     }},
    {"snapshot", "", "true | false", "a copy where a node does not see workdir",
     "true: run from a copy of workdir that is shipped to each node; false: only in place.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.snapshot, value.Bool());
       draft.spec.in_place = !draft.spec.snapshot;
       return {};
     }},
    {"venv", "", "path", "the caller's active environment",
     "Virtual environment; relative to workdir.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       DropInterpreter(draft);
       draft.spec.venv = PathNow(draft, text);
       return {};
     }},
    {"conda", "", "name or path", "the caller's active environment", "Conda environment.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       DropInterpreter(draft);
       draft.spec.conda = std::move(text);
       return {};
     }},
    {"python", "", "path", "unset",
     "An interpreter; relative to workdir. `python` and `python3` of run stand for it.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       if (text.find('/') == std::string::npos)
         return value.Bad("needs the path of an interpreter, found `" + text + "`");
       DropInterpreter(draft);
       draft.spec.python = PathNow(draft, text);
       return {};
     }},
    {"image", "environment.image image_id container", "reference", "none", "Container image.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       DropInterpreter(draft);
       draft.spec.image = std::move(text);
       return {};
     }},
    {"mounts", "bind_mounts volumes", "list of SOURCE:TARGET[:ro]", "none",
     "Directories of the node that the container of `image` sees, beside workdir.", SetMounts},
    {"env", "envs environment_variables environment.environment_variables",
     "map or list of KEY=VAL", "empty",
     "Variables of the ranks, in order; an empty value is required from the caller.", SetEnv},
    {"secrets", "", "list of names", "none",
     "Variables whose values come from the caller and are never stored, logged or shown.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.secrets, value.Texts());
       for (const std::string& name : draft.spec.secrets)
         if (!IsVariableName(name))
           return value.Bad("`" + name + "` is not the name of a variable");
       return {};
     }},
    {"local_rank_arg", "", "true | false", "false",
     "Adds --local_rank=N to the command, for scripts that read the argument; refused where it "
     "cannot be added.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.local_rank_arg, value.Bool());
       return {};
     }},
    {"gpu_binding", "", "all | per_rank", "all",
     "Which devices a rank sees: all of the job's on its node, or its own as device 0; more ranks "
     "than devices share them in order.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.gpu_binding,
                               Choice(value, ParseGpuBinding, {"all", "per_rank"}));
       return {};
     }},
    {"logs.split", "", "true | false", "false", "Standard error in a file of its own.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.logs.split, value.Bool());
       return {};
     }},
    {"logs.cap", "", "size", "the agent's",
     "Most bytes kept per rank; the middle goes first, head and tail stay.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.logs.cap_bytes, value.Bytes(draft));
       return {};
     }},
    {"progress.regex", "", "pattern", "built-in parsers",
     "How step and total are read from the output: 'step (\\d+)/(\\d+)'.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
       if (auto read = ParseProgressPattern(text); !read) {
         return value.Bad(read.error().message, read.error().hint);
       }
       draft.spec.progress_regex = std::move(text);
       return {};
     }},
    {"debug", "", "true | false", "false",
     "A few steps only (10 of micro-batch 1), no retry, 10 minutes at most; `submit --debug`.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.debug, value.Bool());
       return {};
     }},
    {"labels", "tags", "map or list", "none", "Words of your own, shown in status.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       const YamlNode& node = value.node();
       if (node.kind != YamlNode::Kind::kMap) {
         LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> words, value.Texts());
         for (const std::string& word : words) draft.spec.labels[word] = "";
         return {};
       }
       for (const auto& [key, text] : node.entries) {
         if (text.kind != YamlNode::Kind::kScalar && text.kind != YamlNode::Kind::kNull)
           return value.BadItem(text, key.scalar + " needs one value");
         draft.spec.labels[key.scalar] = text.scalar;
       }
       return {};
     }},
};

}  // namespace

std::span<const JobField> ProgramFields() { return kProgramFields; }

}  // namespace launch
