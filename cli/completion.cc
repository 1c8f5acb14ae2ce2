#include "cli/completion.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "cli/output_form.h"
#include "common/text.h"

namespace launch {
namespace {

struct VerbWords {
  std::string path;  // "" of launch itself, "dev", "dev up"
  std::vector<std::string> verbs;
  std::vector<std::string> flags;
  std::vector<std::string> says;  // of each verb
};

void Collect(CLI::App& app, const std::string& path, std::vector<VerbWords>& all) {
  VerbWords words;
  words.path = path;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.flags.push_back("-" + name);
  }
  const std::vector<CLI::App*> verbs = app.get_subcommands([](CLI::App*) { return true; });
  for (const CLI::App* verb : verbs) {
    words.verbs.push_back(verb->get_name());
    words.says.push_back(verb->get_description());
  }
  all.push_back(std::move(words));
  for (CLI::App* verb : verbs) {
    Collect(*verb, path.empty() ? verb->get_name() : path + " " + verb->get_name(), all);
  }
}

std::string Bash(const std::vector<VerbWords>& all) {
  std::string script =
      "_launch() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" path=\"\" verbs=\"\" flags=\"\" i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$path ${COMP_WORDS[i]}\" in\n";
  for (const VerbWords& words : all) {
    if (!words.path.empty()) {
      script += "      \" " + words.path + "\") path=\" " + words.path + "\" ;;\n";
    }
  }
  script +=
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n";
  for (const VerbWords& words : all) {
    script += "    \"" + (words.path.empty() ? "" : " " + words.path) + "\") verbs=\"" +
              Joined(words.verbs, " ") + "\" flags=\"" + Joined(words.flags, " ") + "\" ;;\n";
  }
  script +=
      "  esac\n"
      "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in\n"
      "    -o | --output) COMPREPLY=($(compgen -W \"" +
      Joined(OutputForms(), " ") +
      "\" -- \"$word\"))\n"
      "      compopt +o filenames  # which would escape the `=`\n"
      "      [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
      "      return ;;\n"
      "  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags " +
      Joined(all.front().flags, " ") +
      "\" -- \"$word\"))\n"
      "  elif [[ -n $verbs ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$verbs\" -- \"$word\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _launch launch\n";
  return script;
}

std::string Plain(std::string text) {
  for (char& c : text) {
    if (c == '\'' || c == '\\') c = ' ';
  }
  return text;
}

std::string Fish(const std::vector<VerbWords>& all) {
  std::string script =
      "complete -c launch -s o -l output -x -a '" + Joined(OutputForms(), " ") + "'\n";
  for (const VerbWords& words : all) {
    std::string when = "__fish_use_subcommand";
    if (!words.path.empty()) {
      when = "__fish_seen_subcommand_from " + words.path.substr(words.path.rfind(' ') + 1);
    }
    for (std::size_t i = 0; i < words.verbs.size(); ++i) {
      script += "complete -c launch -n '" + when + "' -a " + words.verbs[i] + " -d '" +
                Plain(words.says[i]) + "'\n";
    }
    for (const std::string& flag : words.flags) {
      const bool is_long = flag.rfind("--", 0) == 0;
      script += "complete -c launch -n '" + when + "' " + (is_long ? "-l " : "-s ") +
                flag.substr(is_long ? 2 : 1) + "\n";
    }
  }
  return script;
}

}  // namespace

Result<std::string> CompletionScript(CLI::App& parser, const std::string& shell) {
  std::vector<VerbWords> all;
  Collect(parser, "", all);
  if (shell == "bash") return Bash(all);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + Bash(all);
  if (shell == "fish") return Fish(all);
  return Fail(ErrorCode::kInvalidArgument, "there is no completion for `" + shell + "`",
              "launch completion bash, zsh or fish");
}

}  // namespace launch
