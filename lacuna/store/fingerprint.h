// A fingerprint in named parts: "genes", "edges gene.physical.gene", "rules", "samples 0:65536",
// ... so that a message can say what differs. It covers contents only: no paths, no times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lacuna/store/directory.h"

namespace lacuna {

struct FingerprintPart {
  std::string name;
  uint64_t hash;
  bool operator==(const FingerprintPart&) const = default;
};

class Fingerprint {
 public:
  void add(std::string name, uint64_t hash);
  const std::vector<FingerprintPart>& parts() const { return parts_; }
  const FingerprintPart* find(const std::string& name) const;  // null where there is none
  uint64_t value() const;                                      // of all parts together

  // The names of parts that `other` lacks or has with another hash, in this one's order; empty when
  // this one agrees.
  std::vector<std::string> differing_parts(const Fingerprint& other) const;
  // Only the parts whose name starts with one of these.
  Fingerprint only(const std::vector<std::string>& prefixes) const;

  Json to_json() const;  // {"genes": "0123...", ...}
  static Fingerprint from_json(const Json& json);

 private:
  std::vector<FingerprintPart> parts_;
};

}  // namespace lacuna
