// The edge types of one graph over the same nodes, laid out for aggregation: for every type the CSR
// by target (which the forward pass walks) and the CSR by source (its transpose, which the backward
// pass walks).
//
// A plan is one run of bytes with a header and offsets inside, and holds no pointers: it can be a
// file, a torch tensor, or a copy on a device, and is used in place from there. Neighbour indices
// are 16 bits wide up to 65,536 nodes and 32 above. A row's neighbours stand in the order of the
// edge list, so a sum's order is a property of the graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lacuna {

// Edge e goes from sources[e] to targets[e].
struct EdgeList {
  std::span<const uint32_t> sources;  // [E]
  std::span<const uint32_t> targets;  // [E]
};

// One CSR inside a plan. `neighbour` is u16 or u32 by GraphPlan::index_bytes().
struct CsrView {
  const uint32_t* ptr;    // [N + 1]
  const void* neighbour;  // [E]
  const uint32_t*
      edge;  // [E] position in the type's edge list: where a value or a mask of this edge stands
};

class GraphPlan {
 public:
  // Throws Error naming type and edge when an index is not below node_count. An empty type is
  // allowed.
  static GraphPlan make(uint32_t node_count, std::span<const EdgeList> types);
  // Uses bytes that stay where they are (64-byte aligned, on the host); `owner` keeps them alive.
  // Throws Error when they are not a plan of this version or are cut short.
  static GraphPlan from_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  std::span<const std::byte> bytes() const { return bytes_; }
  uint32_t node_count() const;
  uint32_t type_count() const;
  uint32_t index_bytes() const;  // 2 or 4
  uint64_t edge_count(uint32_t type) const;
  uint64_t edge_count() const;  // of all types
  // Where the type's edges start when all types stand in one row.
  uint64_t first_edge(uint32_t type) const;
  CsrView by_target(uint32_t type) const;
  CsrView by_source(uint32_t type) const;
  // csr.neighbour[place], whatever its width; loops that must be fast ask index_bytes() once.
  uint32_t neighbour(const CsrView& csr, uint32_t place) const {
    return index_bytes() == 2 ? static_cast<const uint16_t*>(csr.neighbour)[place]
                              : static_cast<const uint32_t*>(csr.neighbour)[place];
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace lacuna
