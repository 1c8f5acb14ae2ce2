#include "cli/render_top.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iterator>
#include <sstream>

#include "cli/table.h"
#include "common/mig.h"
#include "common/plural.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::size_t kHeadLines = 2;
constexpr int kBarWidth = 10;

std::string ClockTime(WallTime time) {
  const std::time_t seconds = static_cast<std::time_t>(ToMs(time) / 1000);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%H:%M:%S", &parts);
  return text;
}

std::string Bar(double share) {
  const int full = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarWidth));
  char text[48];
  std::snprintf(text, sizeof text, "[%s%s] %3.0f%%", std::string(full, '|').c_str(),
                std::string(kBarWidth - full, ' ').c_str(), share * 100);
  return text;
}

std::string Rounded(const std::optional<double>& value, const char* unit) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%s", *value, unit);
  return text;
}

const GpuSample* SampleOf(const NodeView& node, const GpuUuid& gpu) {
  const auto found = std::ranges::find(node.samples, gpu, &GpuSample::uuid);
  return found == node.samples.end() ? nullptr : &*found;
}

std::string UserOf(const TopFacts& facts, const NodeView& node, const GpuDevice& gpu) {
  for (const auto& [uuid, why] : node.quarantined) {
    if (uuid == gpu.uuid) return "quarantined: " + why;
  }
  if (gpu.health == Health::kBad) return "bad: " + gpu.why;
  const auto is_free = std::ranges::find(node.free_gpus, gpu.uuid) != node.free_gpus.end();
  if (is_free) return node.schedulable ? "free" : node.state;
  const auto user = facts.gpu_users.find(gpu.uuid);
  if (user != facts.gpu_users.end()) return "job " + std::to_string(user->second.value);
  if (node.jobs.size() == 1) return "job " + std::to_string(node.jobs.front().value);
  std::string jobs;
  for (const JobId job : node.jobs)
    jobs += (jobs.empty() ? "one of " : ", ") + std::to_string(job.value);
  return jobs.empty() ? "busy" : jobs;
}

std::string GpuTable(const TopFacts& facts, const Screen& screen) {
  Table table;
  table.columns = {{"NODE", false, false}, {"GPU", true, false},    {"TYPE", false, true},
                   {"USE", false, false},  {"MEMORY", true, false}, {"POWER", true, false},
                   {"TEMP", true, false},  {"USED BY", false, true}};
  for (const NodeView& node : facts.nodes) {
    const NodeInventory& inventory = node.inventory;
    if (inventory.gpus.empty()) {
      std::string jobs;
      for (const JobId job : node.jobs)
        jobs += (jobs.empty() ? "job " : ", ") + std::to_string(job.value);
      table.rows.push_back({inventory.node.value, "-", WithPlural(inventory.cores, "core"), "-",
                            FormatBytes(inventory.memory_bytes), "-", "-",
                            jobs.empty() ? node.state : jobs});
      continue;
    }
    for (std::size_t i = 0; i < inventory.gpus.size(); ++i) {
      const GpuDevice& gpu = inventory.gpus[i];
      const GpuSample* sample = SampleOf(node, gpu.uuid);
      std::string memory = FormatBytes(gpu.memory_bytes);
      if (sample != nullptr && sample->used_bytes)
        memory.insert(0, FormatBytes(*sample->used_bytes) + " of ");
      table.rows.push_back(
          {i == 0 ? inventory.node.value : "", std::to_string(GpuNumber(inventory, i)),
           gpu.type.empty() ? gpu.model : gpu.type,
           sample != nullptr && sample->utilization ? Bar(*sample->utilization) : "-", memory,
           sample != nullptr ? Rounded(sample->power_w, " W") : "-",
           sample != nullptr ? Rounded(sample->temperature_c, " C") : "-",
           UserOf(facts, node, gpu)});
    }
  }
  return FormatTable(table, screen.width);
}

std::string Head(const TopFacts& facts, const Screen& screen) {
  std::size_t gpus = 0;
  std::size_t used = 0;
  std::size_t quarantined = 0;
  std::size_t away = 0;
  for (const NodeView& node : facts.nodes) {
    gpus += node.inventory.gpus.size();
    const std::size_t idle = node.free_gpus.size() + node.quarantined.size();
    used += node.inventory.gpus.size() - std::min(node.inventory.gpus.size(), idle);
    quarantined += node.quarantined.size();
    away += node.schedulable ? 0 : 1;
  }
  std::size_t running = 0;
  for (const JobView& job : facts.jobs) running += ToMs(job.started) != 0 ? 1 : 0;
  std::string text = "launch top";
  if (!facts.cluster.empty()) text += ", " + facts.cluster;
  text += "  " + ClockTime(screen.now) + "  " + WithPlural(std::ssize(facts.nodes), "node");
  if (away > 0) text += " (" + std::to_string(away) + " out of service)";
  text += "  " + std::to_string(used) + " of " +
          WithPlural(static_cast<std::int64_t>(gpus), "GPU") + " in use" +
          (quarantined > 0 ? ", " + std::to_string(quarantined) + " quarantined" : "") + "  " +
          WithPlural(std::ssize(facts.jobs), "job") + ", " + std::to_string(running) + " started";
  return facts.trouble.empty() ? text : text + "  " + facts.trouble;
}

void AddLines(std::vector<std::string>& lines, const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
}

}  // namespace

std::vector<std::string> TopLines(const TopFacts& facts, const Screen& screen) {
  std::vector<JobView> jobs = facts.jobs;
  std::ranges::stable_sort(jobs, [](const JobView& a, const JobView& b) {
    return (ToMs(a.started) != 0) > (ToMs(b.started) != 0);
  });
  const std::string head = Head(facts, screen);
  std::vector<std::string> lines = {
      screen.width > 0 ? Shorten(head, static_cast<std::size_t>(screen.width)) : head, ""};
  AddLines(lines, GpuTable(facts, screen));
  lines.emplace_back();
  AddLines(lines, FormatTable(JobsTable(jobs, screen), screen.width));
  return lines;
}

std::vector<std::string> Window(const std::vector<std::string>& lines, std::size_t rows,
                                std::size_t& from) {
  const std::size_t head = std::min({kHeadLines, lines.size(), rows});
  const std::size_t body = rows - head;
  const std::size_t rest = lines.size() - head;
  from = std::min(from, rest > body ? rest - body : 0);
  const auto at = [&](std::size_t i) { return lines.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<std::string> shown(at(0), at(head));
  shown.insert(shown.end(), at(head + from), at(head + from + std::min(body, rest - from)));
  return shown;
}

}  // namespace launch
