#include "agent/link/log_server.h"

#include <algorithm>

#include "proto/node.pb.h"

namespace launch::agent {
namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr std::size_t kMaxReads = 1024;

v1::BulkUp EndOf(std::uint64_t id, std::uint64_t offset, bool complete, const std::string& error) {
  v1::BulkUp up;
  v1::BulkUp::End* end = up.mutable_end();
  end->set_read(id);
  end->set_offset(offset);
  end->set_complete(complete);
  end->set_error(error);
  return up;
}

}  // namespace

void LogServer::Accept(const v1::BulkDown& message) {
  switch (message.body_case()) {
    case v1::BulkDown::kRead:
      Open(message.read());
      return;
    case v1::BulkDown::kCredit: {
      const auto found = reads_.find(message.credit().read());
      if (found != reads_.end()) found->second.credit += message.credit().bytes();
      return;
    }
    case v1::BulkDown::kClose:
      reads_.erase(message.close().read());
      return;
    case v1::BulkDown::BODY_NOT_SET:
      return;
  }
}

void LogServer::Open(const v1::BulkDown_Read& message) {
  ActiveRead read{.key = {JobId{message.key().job()}, Attempt{message.key().attempt()}},
                  .rank = message.rank(),
                  .stream = message.stream(),
                  .next = message.from(),
                  .credit = message.credit(),
                  .follow = message.follow()};
  if (read.stream != "out" && read.stream != "err")
    read.problem = "no such stream: " + message.stream();
  else if (read.rank < 0)
    read.problem = "no such rank";
  else if (reads_.size() >= kMaxReads)
    read.problem = "too many reads on this node";
  else if (!message.has_from() && message.has_last_lines()) {
    const auto offset =
        logs_.OffsetOfLastLines(read.key, read.rank, read.stream, message.last_lines());
    if (offset)
      read.next = *offset;
    else
      read.problem = offset.error().message;
  }
  reads_[message.read()] = std::move(read);
}

std::optional<v1::BulkUp> LogServer::Next() {
  // Twice over the ids: first those behind the last served one, then from the start.
  const std::uint64_t start = last_served_;
  for (const bool wrapped : {false, true}) {
    auto it = wrapped ? reads_.begin() : reads_.upper_bound(start);
    while (it != reads_.end() && !(wrapped && it->first > start)) {
      const std::uint64_t id = it->first;
      auto message = Serve(id, it->second);
      const bool ended = message && message->has_end();
      it = ended ? reads_.erase(it) : std::next(it);
      if (!message) continue;
      last_served_ = id;
      return message;
    }
  }
  return std::nullopt;
}

std::optional<v1::BulkUp> LogServer::Serve(std::uint64_t id, ActiveRead& read) {
  if (read.problem) return EndOf(id, read.next, false, *read.problem);
  const std::size_t most = std::min<std::uint64_t>(read.credit, kChunkBytes);
  // Without credit one byte is asked for all the same: an end needs no credit.
  auto piece =
      logs_.Read(read.key, read.rank, read.stream, read.next, std::max<std::size_t>(most, 1));
  if (!piece) return EndOf(id, read.next, false, piece.error().message);
  v1::BulkUp up;
  if (piece->gap) {
    v1::BulkUp::Gap* gap = up.mutable_gap();
    gap->set_read(id);
    gap->set_from(piece->gap->first);
    gap->set_to(piece->gap->second);
    gap->set_why(piece->emptied ? "the job emptied its own log; rounded up"
                                : "dropped to save space");
    read.next = piece->gap->second;  // what follows the gap is read at the next turn
    return up;
  }
  if (!piece->data.empty()) {
    if (most == 0) return std::nullopt;
    read.at_end = false;
    v1::BulkUp::Chunk* chunk = up.mutable_chunk();
    chunk->set_read(id);
    chunk->set_offset(read.next);
    read.credit -= piece->data.size();
    chunk->set_data(std::move(piece->data));
    chunk->set_wall_ms(piece->wall_ms);
    read.next = piece->next;
    return up;
  }
  if (piece->complete) return EndOf(id, read.next, true, "");
  if (!read.follow && !piece->later) return EndOf(id, read.next, false, "");
  read.at_end = true;
  return std::nullopt;
}

bool LogServer::Following() const {
  return std::ranges::any_of(reads_, [](const auto& entry) { return entry.second.at_end; });
}

}  // namespace launch::agent
