#include "planner/start/node_launcher.h"

#include <string>
#include <string_view>
#include <utility>

#include "common/quoted.h"

namespace launch {

extern const std::string_view kNodeLauncherPy;
extern const std::string_view kNodeLauncherSh;

std::vector<GeneratedFile> NodeLauncherFiles() {
  std::vector<GeneratedFile> files;
  for (const char* word :
       {"accelerate", "accelerate-launch", "composer", "deepspeed", "torchrun"}) {
    // The shell sees ":" and the next line, Python a string and what is behind it.
    std::string text = "#!/bin/sh\n''':'\nexec /bin/sh \"$LAUNCH_WRAPPERS/node_launcher.sh\" ";
    text.append(word).append(
        " \"$@\"\n'''\nimport os, sys\n"
        "os.environ[\"LAUNCH_PYTHON\"] = sys.executable\n"
        "os.execv(\"/bin/sh\", [\"sh\", os.environ[\"LAUNCH_WRAPPERS\"] + \"/node_launcher.sh\", "
        "\"");
    text.append(word).append("\", *sys.argv[1:]])\n");
    files.push_back({word, std::move(text)});
  }
  files.push_back({"node_launcher.py", std::string(kNodeLauncherPy)});
  files.push_back({"node_launcher.sh", std::string(kNodeLauncherSh)});
  return files;
}

std::vector<GeneratedFile> PythonFiles(const std::string& interpreter) {
  const std::string text = "#!/bin/sh\nexec " + ShellQuote(interpreter) + " \"$@\"\n";
  std::vector<GeneratedFile> files;
  const std::string_view word = std::string_view(interpreter).substr(interpreter.rfind('/') + 1);
  for (const char* name : {"python", "python3"}) {
    if (word != "python" && word != name) files.push_back({name, text});
  }
  return files;
}

std::vector<GeneratedFile> PythonDeviceFiles(const std::string& interpreter) {
  const std::string quoted = ShellQuote(interpreter);
  std::vector<GeneratedFile> files;
  for (const std::string name : {"python", "python3"}) {
    const std::string command =
        interpreter.empty() ? "/bin/sh \"$LAUNCH_WRAPPERS/node_launcher.sh\" " + name
                            : quoted + " \"$LAUNCH_WRAPPERS/node_launcher.py\" program " + quoted;
    files.push_back({name, "#!/bin/sh\nexec " + command + " \"$@\"\n"});
  }
  return files;
}

}  // namespace launch
