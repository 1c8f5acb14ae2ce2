#include "cli/snapshot/ship.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

NodeView NodeAt(std::vector<std::string> addresses, bool schedulable = true) {
  NodeView node;
  node.schedulable = schedulable;
  for (std::string& address : addresses) {
    node.inventory.addresses.push_back({.interface = "eth0", .address = std::move(address)});
  }
  return node;
}

TEST(Ship, WhatTheFileSaysHolds) {
  JobSpec spec;
  spec.snapshot = true;
  EXPECT_EQ(ShippingOf(spec, false, true), Shipping::kAlways);
  spec.snapshot = false;
  spec.in_place = true;
  EXPECT_EQ(ShippingOf(spec, true, false), Shipping::kNever);
}

TEST(Ship, UnaskedOnlyWhereANodeMayNotSeeTheDirectory) {
  const JobSpec spec;
  EXPECT_EQ(ShippingOf(spec, false, false), Shipping::kNever) << "all nodes are this machine";
  EXPECT_EQ(ShippingOf(spec, true, true), Shipping::kNever) << "a shared file system";
  EXPECT_EQ(ShippingOf(spec, true, false), Shipping::kIfNotShared);
}

TEST(Ship, AnotherMachineHasNoneOfOurAddresses) {
  const std::vector<std::string> own = {"127.0.0.1", "10.0.0.1", "::1"};
  EXPECT_FALSE(AnyOtherMachine({}, own));
  EXPECT_FALSE(AnyOtherMachine({NodeAt({"127.0.0.1", "10.0.0.1"})}, own));
  EXPECT_TRUE(AnyOtherMachine({NodeAt({"10.0.0.1"}), NodeAt({"127.0.0.1", "10.0.0.2"})}, own))
      << "a loopback address is everybody's";
  EXPECT_FALSE(AnyOtherMachine({NodeAt({"10.0.0.2"}, false)}, own)) << "nothing starts there";
  EXPECT_FALSE(AnyOtherMachine({NodeAt({})}, own)) << "nothing is known of it";
}

}  // namespace
}  // namespace launch
