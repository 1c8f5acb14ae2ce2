#include "cli/job_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>

#include "cli/import/import.h"
#include "cli/job_draft.h"
#include "cli/job_fields.h"
#include "cli/named_files.h"
#include "cli/shell_words.h"
#include "common/quoted.h"
#include "common/text.h"
#include "planner/line/launch_line.h"

namespace launch {
namespace {

std::string LineText(int line) { return line > 0 ? "line " + std::to_string(line) + ": " : ""; }

Result<void> SetField(JobDraft& draft, const JobField& field, std::string_view written,
                      const YamlNode& key, const YamlNode& node) {
  const FieldValue value(node, field.name, written, draft.file);
  if (field.set == nullptr)
    return Fail(ErrorCode::kUnimplemented,
                "`" + std::string(written) + "` is known, but not in this version",
                "remove the line; docs/job-file.md lists what this version reads",
                Where{draft.file, key.line, key.column, std::string(field.name)});
  if (!draft.on_command_line) {
    const auto [before, fresh] = draft.written_at.emplace(field.name, key.line);
    if (!fresh)
      return Fail(ErrorCode::kInvalidArgument,
                  "`" + std::string(written) + "` is set twice, first on line " +
                      std::to_string(before->second),
                  "keep one of them", Where{draft.file, key.line, key.column, before->first});
    if (written != field.name)
      draft.notices.push_back(LineText(key.line) + "`" + std::string(written) + "` is read as `" +
                              std::string(field.name) + "`");
  }
  if (node.kind == YamlNode::Kind::kNull && field.name != "env")
    return Fail(ErrorCode::kInvalidArgument, "has no value", "write a value or remove the line",
                Where{draft.file, key.line, key.column, std::string(written)});
  if (field.name == "nodes") draft.nodes_said = true;
  return field.set(draft, value);
}

// Blocks that may also be written as one value: `retry: 3`.
std::string_view ShortFormOf(std::string_view block) {
  if (block == "retry") return "retry.max";
  if (block == "preflight") return "preflight.level";
  if (block == "checkpoint") return "checkpoint.dir";
  return {};
}

std::string NearestField(const std::string& key, const std::string& block) {
  return NearestName(Lower(key), JobFieldNames(block));
}

// Fields that this version does not read, in the order of the file.
void FindStrangers(const YamlNode& map, const std::string& block, std::vector<std::string>& found) {
  for (const auto& [key, node] : map.entries) {
    const std::string name = block.empty() ? key.scalar : block + "." + key.scalar;
    const JobField* field = FindJobField(name);
    const bool is_map = node.kind == YamlNode::Kind::kMap;
    if (field == nullptr && is_map && (name == "resources" || IsJobBlock(name))) {
      FindStrangers(node, name == "resources" ? "" : name, found);
    } else if (field == nullptr ? !IsJobBlock(name) : field->set == nullptr) {
      const std::string nearest = field == nullptr ? NearestField(key.scalar, block) : "";
      found.push_back("`" + name + "` (line " + std::to_string(key.line) +
                      (field != nullptr  ? ", known, but not in this version)"
                       : nearest.empty() ? ")"
                                         : ": did you mean `" + nearest + "`?)"));
    }
  }
}

// All at once, where there are several: who brings a file of another launcher mends it in one go.
Result<void> CheckNames(const YamlNode& root, const std::string& file) {
  std::vector<std::string> found;
  FindStrangers(root, "", found);
  if (found.size() < 2) return {};  // one is told with its place and the nearest name
  return Fail(ErrorCode::kInvalidArgument,
              "fields that this version does not read: " + Joined(found, ", "),
              "remove or correct them; docs/job-file.md lists the fields", Where{file, 0, 0, {}});
}

Result<void> ReadMap(JobDraft& draft, const YamlNode& map, const std::string& block) {
  for (const auto& [key, node] : map.entries) {
    const std::string name = block.empty() ? key.scalar : block + "." + key.scalar;
    // SkyPilot groups the request; its words are ours at the top level.
    if (name == "resources" && node.kind == YamlNode::Kind::kMap) {
      draft.notices.push_back(LineText(key.line) + "`resources` is read as fields of the job");
      LAUNCH_RETURN_IF_ERROR(ReadMap(draft, node, ""));
      continue;
    }
    const JobField* field = FindJobField(name);
    if (field == nullptr && IsJobBlock(name)) {
      if (node.kind == YamlNode::Kind::kMap) {
        LAUNCH_RETURN_IF_ERROR(ReadMap(draft, node, name));
        continue;
      }
      if (node.kind == YamlNode::Kind::kScalar && !ShortFormOf(name).empty()) {
        LAUNCH_RETURN_IF_ERROR(
            SetField(draft, *FindJobField(ShortFormOf(name)), ShortFormOf(name), key, node));
        continue;
      }
      return Fail(ErrorCode::kInvalidArgument, "needs a map of its own fields", "",
                  Where{draft.file, node.line, node.column, name});
    }
    if (field == nullptr) {
      const std::string nearest = NearestField(key.scalar, block);
      return Fail(
          ErrorCode::kInvalidArgument, "unknown field `" + name + "`",
          nearest.empty() ? "docs/job-file.md lists the fields" : "did you mean `" + nearest + "`?",
          Where{draft.file, key.line, key.column, {}});
    }
    LAUNCH_RETURN_IF_ERROR(SetField(draft, *field, name, key, node));
  }
  return {};
}

Result<void> ReadRoot(JobDraft& draft, const YamlNode& root) {
  LAUNCH_RETURN_IF_ERROR(CheckNames(root, draft.file));
  return ReadMap(draft, root, "");
}

// A scalar as written, unless it starts like a list or a map.
Result<YamlNode> OverrideNode(const JobOverride& change) {
  if (!change.value.empty() && (change.value[0] == '[' || change.value[0] == '{')) {
    Result<YamlNode> node = ParseYaml(change.value, change.flag);
    if (!node) {
      Error error = node.error();
      error.message = change.flag + ": " + error.message;
      error.where.reset();
      return Unexpected(error);
    }
    return node;
  }
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.scalar = change.value;
  return node;
}

// Each of them drops the one of the file, so the last of several would win in silence.
Result<void> CheckOneInterpreter(const std::vector<JobOverride>& overrides) {
  const JobOverride* first = nullptr;
  for (const JobOverride& change : overrides) {
    const JobField* field = FindJobField(change.field);
    const std::string_view name = field == nullptr ? "" : field->name;
    if (name != "venv" && name != "conda" && name != "python" && name != "image") continue;
    if (first != nullptr && FindJobField(first->field) != field)
      return Fail(ErrorCode::kInvalidArgument,
                  first->flag + " and " + change.flag + " name two interpreters",
                  "keep one of them");
    first = &change;
  }
  return {};
}

Result<void> Apply(JobDraft& draft, const std::vector<JobOverride>& overrides,
                   const std::string& cwd) {
  LAUNCH_RETURN_IF_ERROR(CheckOneInterpreter(overrides));
  const std::string file = draft.file;
  const std::string base = draft.base_dir;
  draft.file.clear();
  draft.base_dir = cwd;
  draft.on_command_line = true;
  for (const JobOverride& change : overrides) {
    const JobField* field = FindJobField(change.field);
    LAUNCH_CHECK(field != nullptr, change.field);
    LAUNCH_ASSIGN_OR_RETURN(YamlNode node, OverrideNode(change));
    if (Result<void> set = SetField(draft, *field, change.flag, node, node); !set) {
      Error error = set.error();
      if (error.where) error.where->line = error.where->column = 0;  // a value has no lines
      return Unexpected(std::move(error));
    }
  }
  draft.file = file;
  draft.base_dir = base;
  draft.on_command_line = false;
  return {};
}

// `strategy: zero2-offload` says where the optimizer lives too, wherever `offload` stands.
Result<void> TakeStrategyOffload(JobDraft& draft) {
  Offload& offload = draft.spec.offload;
  if (!draft.strategy_offload) return {};
  if (offload == Offload::kAuto) offload = *draft.strategy_offload;
  if (offload != Offload::kNone) return {};
  const std::string stage(ToString(draft.spec.strategy));
  return Fail(
      ErrorCode::kInvalidArgument, "offload: none contradicts strategy: " + stage + "-offload",
      "write strategy: " + stage + ", or leave offload out", Where{draft.file, 0, 0, "offload"});
}

// A line, or a file that it names, says itself how many nodes it is for; what is wrong with either
// is said where the job is planned.
void TakeNodesOfLine(JobDraft& draft) {
  const auto files = ReadNamedFiles(draft.spec);
  LaunchLineOptions options =
      LineOptions(draft.spec, files ? *files : std::map<std::string, std::string>());
  options.told.erase("NNODES");
  options.counts_only = true;
  const auto line = ReadLaunchLine(draft.spec.run, options);
  if (!line || !line->nodes_min) return;
  draft.spec.nodes = {*line->nodes_min, line->nodes_max.value_or(*line->nodes_min), false};
}

Result<ReadJob> Finish(JobDraft draft, std::string source) {
  JobSpec& spec = draft.spec;
  const Where whole{draft.file, 0, 0, {}};
  if (spec.run.empty())
    return Fail(ErrorCode::kInvalidArgument, "`run` is missing",
                "add the training command: `run: python train.py`", whole);
  if (spec.workdir.empty()) spec.workdir = draft.base_dir;
  if (!draft.nodes_said) TakeNodesOfLine(draft);
  if (!spec.venv.empty()) spec.venv = AbsolutePath(spec.venv, spec.workdir);
  if (!spec.python.empty()) spec.python = AbsolutePath(spec.python, spec.workdir);
  if (spec.conda.find('/') != std::string::npos)
    spec.conda = AbsolutePath(spec.conda, spec.workdir);
  const int interpreters =
      static_cast<int>(!spec.venv.empty()) + static_cast<int>(!spec.conda.empty()) +
      static_cast<int>(!spec.python.empty()) + static_cast<int>(!spec.image.empty());
  if (interpreters > 1)
    return Fail(ErrorCode::kInvalidArgument,
                "more than one of venv, conda, python and image is set",
                "keep the one that holds the job's packages", whole);
  if (spec.total_gpus && spec.gpus_written)
    return Fail(ErrorCode::kInvalidArgument, "gpus and total_gpus are both set",
                "gpus is per node, total_gpus over all nodes: keep one", whole);
  if (spec.requeue_after && 2 * spec.stop_duration >= *spec.requeue_after)
    return Fail(ErrorCode::kInvalidArgument,
                "stop_duration is not shorter than half of requeue_after",
                "ranks that are cut off are told to end this long before the end: make "
                "stop_duration shorter or requeue_after longer",
                whole);
  LAUNCH_RETURN_IF_ERROR(TakeStrategyOffload(draft));
  if (spec.dataset && spec.dataset->samples == 0)
    return Fail(ErrorCode::kInvalidArgument, "dataset.epochs needs dataset.samples", "", whole);
  return ReadJob{std::move(draft.spec), std::move(draft.notices), std::move(source)};
}

// "-", /dev/stdin and bash's <(...): what they hold has no place and no name of its own.
bool IsPipe(const std::string& path) { return path == "-" || path.starts_with("/dev/"); }

// After its script, else after its program.
std::string NameOfCommand(const std::vector<std::string>& words) {
  for (const std::string_view ending : {".py", ".sh"})
    for (const std::string& word : words)
      if (word.ends_with(ending)) return NameFrom(std::filesystem::path(word).stem().string());
  const auto program =
      std::ranges::find_if(words, [](const std::string& word) { return AssignedName(word) == 0; });
  return program == words.end() ? ""
                                : NameFrom(std::filesystem::path(*program).filename().string());
}

// `-- 'python train.py'`: nobody has a program of that name.
Result<void> CheckNotOneWord(const std::vector<std::string>& words, const std::string& cwd) {
  if (words.size() != 1 || words[0].find_first_of(" \t\n") == std::string::npos) return {};
  std::error_code unreadable;
  if (std::filesystem::exists(std::filesystem::path(cwd) / words[0], unreadable)) return {};
  // Without its quotes the shell of the user would run what stands behind an operator.
  const bool is_text = words[0].find_first_of("&|;<>$`(\n") != std::string::npos;
  const std::string by_shell = "-- bash -c " + ShellQuote(words[0]);
  return Fail(ErrorCode::kInvalidArgument,
              "the command is one word with blanks: " + Quoted(words[0]),
              is_text ? "a text with operators or variables needs a shell: " + by_shell
                      : "leave the quotes out: -- " + words[0]);
}

// `-- cd sub '&&' python train.py`: the words are those of one program, and `cd` is none of them.
Result<void> CheckNoOperators(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 5> kOfShells = {"cd", "export", "source", ".", "set"};
  const auto joins = std::ranges::find_if(
      words, [](const std::string& word) { return word == "&&" || word == "||" || word == ";"; });
  if (joins == words.end() || std::ranges::find(kOfShells, words[0]) == kOfShells.end()) return {};
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return Fail(ErrorCode::kInvalidArgument,
              Quoted(*joins) + " after -- is an argument of " + words[0] + " and joins no commands",
              "-- bash -c " + ShellQuote(text));
}

// "batch.global, batch.micro"
std::string NamesWithin(const std::string& block) {
  std::string names;
  for (const std::string& name : JobFieldNames(block))
    names.append(names.empty() ? "" : ", ").append(block).append(".").append(name);
  return names;
}

}  // namespace

std::string NameFrom(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '.' || c == '_')
      name += static_cast<char>(std::tolower(byte));
    else if (!name.empty() && name.back() != '-')
      name += '-';
    if (name.size() == 63) break;
  }
  while (!name.empty() && (name.front() == '.' || name.front() == '-')) name.erase(0, 1);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "job" : name;
}

Result<JobOverride> ParseOverride(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return Fail(ErrorCode::kInvalidArgument, "`" + std::string(text) + "` is not key=value",
                "after the file and `--` stand overrides such as batch.micro=4");
  JobOverride change{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)),
                     std::string(text.substr(0, equals))};
  if (FindJobField(change.field) == nullptr && !ShortFormOf(change.field).empty())
    change.field = ShortFormOf(change.field);
  if (FindJobField(change.field) == nullptr && IsJobBlock(change.field))
    return Fail(ErrorCode::kInvalidArgument, "`" + change.field + "` has fields of its own",
                "name one of them: " + NamesWithin(change.field));
  if (FindJobField(change.field) == nullptr) {
    const std::size_t dot = change.field.find('.');
    const std::string block = dot == std::string::npos ? "" : change.field.substr(0, dot);
    const std::string key = dot == std::string::npos ? change.field : change.field.substr(dot + 1);
    const std::string nearest = NearestName(key, JobFieldNames(block));
    return Fail(ErrorCode::kInvalidArgument, "unknown field `" + change.field + "`",
                nearest.empty()
                    ? "docs/job-file.md lists the fields"
                    : "did you mean `" + (block.empty() ? "" : block + ".") + nearest + "`?");
  }
  return change;
}

Result<ReadJob> ReadJobText(std::string_view text, const std::string& file,
                            const std::string& base_dir, const std::vector<JobOverride>& overrides,
                            const std::string& cwd) {
  LAUNCH_ASSIGN_OR_RETURN(YamlNode root, ParseYaml(text, file));
  if (root.kind != YamlNode::Kind::kMap)
    return Fail(ErrorCode::kInvalidArgument,
                "a job file is a map of fields such as `run: python train.py`", "",
                Where{file, root.line, root.column, {}});
  JobDraft draft;
  draft.file = file;
  draft.base_dir = base_dir;
  if (auto read = ReadRoot(draft, root); !read) {
    Error error = read.error();
    if (IsSkyPilotTask(root))
      error.hint += (error.hint.empty() ? "`" : "; `") + ("launch import " + file) +
                    "` makes a job file of a SkyPilot task";
    return Unexpected(std::move(error));
  }
  if (text.find("SKYPILOT_") != std::string_view::npos)
    draft.notices.push_back("nobody sets the SKYPILOT_ variables here: `launch import " + file +
                            "` gives them the names that launch sets");
  LAUNCH_RETURN_IF_ERROR(Apply(draft, overrides, cwd));
  if (draft.spec.name.empty())
    draft.spec.name = NameFrom(IsPipe(file) ? "" : std::filesystem::path(file).stem().string());
  return Finish(std::move(draft), std::string(text));
}

Result<ReadJob> ReadJobFile(const std::string& path, const std::vector<JobOverride>& overrides,
                            const std::string& cwd) {
  const std::filesystem::path absolute = std::filesystem::path(cwd) / path;
  const std::string folder =
      IsPipe(path) ? cwd : AbsolutePath(absolute.parent_path().string(), "/");
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, ReadYamlText(path == "-" ? "/dev/stdin" : path));
  if (text.starts_with("#!") && IsSlurmScript(text)) {
    LAUNCH_ASSIGN_OR_RETURN(Imported imported, ImportText(text, path));
    LAUNCH_ASSIGN_OR_RETURN(ReadJob job, ReadJobText(imported.yaml, path, folder, overrides, cwd));
    job.notices.push_back(path + " is read as a " + imported.from +
                          "; launch import shows the job file");
    std::move(imported.notes.begin(), imported.notes.end(), std::back_inserter(job.notices));
    return job;
  }
  if (path.ends_with(".py") || path.ends_with(".sh"))
    return Fail(ErrorCode::kInvalidArgument, path + " is a script, not a job file",
                "give it as a command: -- " +
                    std::string(path.ends_with(".py") ? "python " : "bash ") + ShellQuote(path));
  return ReadJobText(text, path, folder, overrides, cwd);
}

Result<ReadJob> ReadJobLine(const std::vector<std::string>& words,
                            const std::vector<JobOverride>& overrides, const std::string& cwd) {
  LAUNCH_RETURN_IF_ERROR(CheckNotOneWord(words, cwd));
  LAUNCH_RETURN_IF_ERROR(CheckNoOperators(words));
  JobDraft draft;
  draft.file = "command line";
  draft.base_dir = cwd;
  draft.spec.run = JoinWords(words);
  draft.spec.name = NameOfCommand(words);
  LAUNCH_RETURN_IF_ERROR(Apply(draft, overrides, cwd));
  std::string source = draft.spec.run;
  return Finish(std::move(draft), std::move(source));
}

}  // namespace launch
