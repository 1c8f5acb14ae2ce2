// Calls without an answer: what that may mean, and repeating those that do nothing twice.
#pragma once

#include <string>

#include "common/error.h"

namespace launch {

// gRPC has one code for a silent host and for a failed handshake; its text tells them apart.
Error ExplainUnreachable(Error error);

// Whether nobody answered, so that it is in general unknown whether the call had an effect.
bool IsUnanswered(const Error& error);
// Whether the call may have reached the controller: false only when no connection came about.
bool MayHaveArrived(const Error& error);

// The error of a submit of which some try may have arrived: it says that the outcome is unknown.
Error OutcomeUnknown(Error error);
// The error with the idempotency key under which to repeat the submit, where nobody answered.
Error WithKey(Error error, const std::string& key);

enum class Repeat {
  kUnanswered,  // what twice does as much as once
  kUnsent,      // anything else
};

// Calls up to `tries` times until there is an answer, with `pause(n)` after the n-th try, counted
// from 0.
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
