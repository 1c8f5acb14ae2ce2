// top: the cluster's GPUs and jobs on the whole screen, painted again as they change.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <set>

#include "cli/app.h"
#include "cli/render_json.h"
#include "cli/render_top.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::size_t kMostAskedFor = 32;  // jobs whose GPUs are asked for

std::atomic<bool> top_ends{false};

void EndTop(int) { top_ends = true; }
void RepaintTop(int) {}  // it interrupts the wait for a key

// The terminal's other screen, no cursor, each key at once; put back whatever happens but SIGKILL.
class WholeScreen {
 public:
  WholeScreen() : had_mode_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) Handle(signal, EndTop);
    Handle(SIGWINCH, RepaintTop);
    if (had_mode_) {
      termios mode = before_;
      mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      (void)::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
    }
    Put("\033[?1049h\033[?25l");
  }
  ~WholeScreen() {
    Put("\033[?25h\033[?1049l");
    if (had_mode_) (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  WholeScreen(const WholeScreen&) = delete;
  WholeScreen& operator=(const WholeScreen&) = delete;

  // Each line over the one that stands there, in one write: nothing is blank in between.
  void Paint(const std::vector<std::string>& lines) const {
    std::string bytes = "\033[H";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      bytes += lines[i] + "\033[K";
      if (i + 1 < lines.size()) bytes += "\r\n";
    }
    Put(bytes + "\033[J");
  }
  static std::size_t Rows() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
  }

 private:
  static void Handle(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;  // without SA_RESTART: poll ends
    (void)::sigaction(signal, &action, nullptr);
  }
  static void Put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
      if (wrote < 0 && errno != EINTR) return;
      if (wrote > 0) bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
  }
  termios before_{};
  const bool had_mode_;
};

// Asks the cluster, and keeps what it said last for the times when it does not answer.
class TopSource {
 public:
  TopSource(Client& client, bool all) : client_(client), all_(all) {
    if (const auto who = client_.WhoAmI()) facts_.cluster = who->cluster;
  }
  void ShowAll(bool all) { all_ = all; }
  bool all() const { return all_; }

  // Errors of the first time only; later ones stand in the head.
  Result<void> Ask() {
    auto nodes = client_.Nodes();
    auto jobs = nodes ? client_.Jobs({all_, false}) : Unexpected(nodes.error());
    if (!jobs) {
      if (!asked_) return Unexpected(jobs.error());
      facts_.trouble = "NO ANSWER: " + jobs.error().message;
      return {};
    }
    asked_ = true;
    facts_.trouble.clear();
    facts_.nodes = std::move(*nodes);
    facts_.jobs = std::move(*jobs);
    AskForGpus();
    return {};
  }
  const TopFacts& facts() const { return facts_; }

 private:
  // Where several jobs share a node only their plans say whose a GPU is; those do not change.
  void AskForGpus() {
    std::set<JobId> shared;
    for (const NodeView& node : facts_.nodes) {
      if (node.jobs.size() > 1) shared.insert(node.jobs.begin(), node.jobs.end());
    }
    std::map<JobId, std::vector<GpuUuid>> known;
    for (const JobView& job : facts_.jobs) {
      if (!shared.contains(job.id) || job.attempts.empty()) continue;
      const auto key = std::pair(job.id, job.attempts.back().attempt);
      if (!gpus_.contains(key) && gpus_.size() < kMostAskedFor) {
        const auto view = client_.Job(job.id);  // refused for jobs of others
        std::vector<GpuUuid>& gpus = gpus_[key];
        if (view && view->plan) {
          for (const RankAssignment& rank : view->plan->assignments)
            gpus.insert(gpus.end(), rank.gpu_uuids.begin(), rank.gpu_uuids.end());
        }
      }
      if (gpus_.contains(key)) known[job.id] = gpus_.at(key);
    }
    facts_.gpu_users.clear();
    for (const auto& [job, gpus] : known) {
      for (const GpuUuid& gpu : gpus) facts_.gpu_users[gpu] = job;
    }
    std::erase_if(gpus_, [&](const auto& entry) { return !known.contains(entry.first.first); });
  }

  Client& client_;
  bool all_;
  bool asked_ = false;
  TopFacts facts_;
  std::map<std::pair<JobId, Attempt>, std::vector<GpuUuid>> gpus_;
};

// The next key; 0 when there is none within `wait`. An arrow is A (up) or B (down), as it ends.
char NextKey(Millis wait) {
  pollfd key{STDIN_FILENO, POLLIN, 0};
  if (::poll(&key, 1, static_cast<int>(wait.count())) <= 0) return 0;
  char bytes[8] = {};
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got <= 0) return 'q';  // nobody is there any more
  if (got >= 3 && bytes[0] == '\033' && bytes[1] == '[') return bytes[2];
  return bytes[0];
}

Result<int> ShowTop(const App& app, bool all, bool once, const std::string& interval_text) {
  LAUNCH_ASSIGN_OR_RETURN(const Millis interval, ParseDuration(interval_text));
  if (interval < Millis(100)) {
    return Fail(ErrorCode::kInvalidArgument, "--interval is at least 0.1 s", "--interval 1s");
  }
  const bool document = app.WantsJson() || app.WantsYaml();
  if (!once && !document && (!app.StdoutIsTerminal() || ::isatty(STDIN_FILENO) == 0)) {
    return Fail(ErrorCode::kInvalidArgument, "launch top needs a terminal",
                "launch top --once prints one screen");
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  TopSource source(client, all);
  LAUNCH_RETURN_IF_ERROR(source.Ask());
  if (document) {
    app.OutDocument(TopJson(source.facts()));
    return 0;
  }
  if (once) {
    for (const std::string& line : TopLines(source.facts(), app.ScreenNow())) app.Out(line + "\n");
    return 0;
  }
  const WholeScreen whole;
  for (std::size_t from = 0; !top_ends;) {
    Screen screen = app.ScreenNow();
    screen.width = std::max(screen.width, 40);
    whole.Paint(Window(TopLines(source.facts(), screen), WholeScreen::Rows(), from));
    switch (NextKey(interval)) {
      case 'q':
        return 0;
      case 'k':
      case 'A':
        from -= from > 0 ? 1 : 0;
        continue;
      case 'j':
      case 'B':
        ++from;
        continue;
      case 'a':
        source.ShowAll(!source.all());
        break;
      default:
        break;
    }
    (void)source.Ask();  // said in the head
  }
  return 0;
}

}  // namespace

void AddTopVerb(CLI::App& parser, App& app) {
  struct TopOptions {
    bool all = false;
    bool once = false;
    std::string interval = "1s";
  };
  auto options = std::make_shared<TopOptions>();
  CLI::App* top = parser.add_subcommand(
      "top", "Watch GPUs and jobs on the full screen; q quits, j and k scroll, a shows all users");
  top->add_flag("-a,--all", options->all, "Show jobs of all users");
  top->add_flag("--once", options->once, "Print one screen and exit");
  top->add_option("--interval", options->interval, "Time between refreshes (default 1s)");
  top->callback([&app, options] {
    app.run = [&app, options] {
      return ShowTop(app, options->all, options->once, options->interval);
    };
  });
}

}  // namespace launch
