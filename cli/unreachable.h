// Calls without an answer: what that may mean, and repeating those that do nothing twice.
#pragma once

#include <string>

#include "common/error.h"

namespace launch {

// gRPC has one code for a silent host and for a failed handshake; its text tells them apart.
Error ExplainUnreachable(Error error);

// Nobody answered: whether the call had an effect is in general unknown.
bool IsUnanswered(const Error& error);
// Not so only when no connection came about.
bool MayHaveArrived(const Error& error);

// Of a submit of which some try may have arrived.
Error OutcomeUnknown(Error error);
// The same with the key under which it is repeated, where nobody answered.
Error WithKey(Error error, const std::string& key);

enum class Repeat {
  kUnanswered,  // what twice does as much as once
  kUnsent,      // anything else
};

// Up to `tries` times until it is answered, `pause(n)` after the n-th one from 0.
template <class Pause, class Call>
auto Again(int tries, const Pause& pause, const Call& call, Repeat which = Repeat::kUnanswered) {
  for (int attempt = 0;; ++attempt) {
    auto reply = call();
    if (reply || !IsUnanswered(reply.error()) || attempt + 1 == tries) return reply;
    if (which == Repeat::kUnsent && MayHaveArrived(reply.error())) return reply;
    pause(attempt);
  }
}

}  // namespace launch
