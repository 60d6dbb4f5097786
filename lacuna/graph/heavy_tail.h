// Draws nodes so that a few come up far more often than the others: of a generated graph
// (generate_graph.h).
//
// Place r of a list of n nodes comes up in proportion to (r + c)^(-2/3): with t uniform from kCut
// to 1, r = n * (t^3 - kCut^3) / (1 - kCut^3). The cut sets c, and thereby the first place's share:
// about 17 times the mean.
//
// With modules (the number of a node modulo their count) there is a draw among the nodes of one
// module, in the same proportions to each other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"

namespace lacuna {

class HeavyTail {
 public:
  explicit HeavyTail(std::vector<uint32_t> nodes, uint32_t modules = 0)
      : nodes_(std::move(nodes)), modules_(modules) {
    if (modules_ >= kManyModules) list_modules();
  }

  uint32_t draw(Random& random) const {
    const double t = kCut + (1.0 - kCut) * random.uniform();
    const double share = (t * t * t - kCutCubed) / (1.0 - kCutCubed);
    return nodes_[std::min(size_t(share * double(nodes_.size())), nodes_.size() - 1)];
  }

  // Of the nodes of a module, of which there must be one. Of few modules one is soon drawn from all
  // nodes, in time that grows with the number of modules; from kManyModules on they are listed, and
  // a draw takes the logarithm of a module's nodes. (Graphs of few modules have the bytes that they
  // have always had.)
  uint32_t draw_within(uint32_t module, Random& random) const {
    if (modules_ < kManyModules) {
      uint32_t node = draw(random);
      while (node % modules_ != module) node = draw(random);
      return node;
    }
    const Module& of = listed_[module];
    LACUNA_ASSERT(!of.nodes.empty());
    const auto at = std::ranges::upper_bound(of.ends, of.ends.back() * random.uniform());
    return of.nodes[std::min(size_t(at - of.ends.begin()), of.nodes.size() - 1)];
  }

  static constexpr uint32_t kManyModules = 64;

 private:
  struct Module {
    std::vector<uint32_t> nodes = {};  // in the order of their places
    std::vector<double> ends = {};     // how likely it is one of the nodes up to this one
  };

  // t where the place begins.
  double start_of(size_t place) const {
    const double share = double(place) / double(nodes_.size());
    return std::cbrt(kCutCubed + share * (1.0 - kCutCubed));
  }

  void list_modules() {
    listed_.resize(modules_);
    for (size_t place = 0; place < nodes_.size(); ++place) {
      Module& of = listed_[nodes_[place] % modules_];
      const double before = of.ends.empty() ? 0 : of.ends.back();
      of.nodes.push_back(nodes_[place]);
      of.ends.push_back(before + start_of(place + 1) - start_of(place));
    }
  }

  static constexpr double kCut = 0.15, kCutCubed = kCut * kCut * kCut;
  std::vector<uint32_t> nodes_;
  uint32_t modules_;
  std::vector<Module> listed_ = {};  // [modules] where there are many
};

}  // namespace lacuna
