#include "lacuna/ladder/rung.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna {

std::string_view name(Place place) {
  constexpr std::array<std::string_view, 6> kNames = {"disk",   "ram",    "tiered",
                                                      "worker", "device", "kernel"};
  return kNames[size_t(place)];
}

std::string_view name(Form form) {
  constexpr std::array<std::string_view, 8> kNames = {"",          "u8",  "bits",   "bf16",
                                                      "positions", "f32", "chunks", "resident"};
  return kNames[size_t(form)];
}

std::string name(Rung rung) {
  std::string text(name(rung.place));
  if (rung.form != Form::none) text.append(":").append(name(rung.form));
  if (rung.expanded_at) text.append("@").append(name(*rung.expanded_at));
  return text;
}

Rung rung_from_name(std::string_view wanted, std::span<const Rung> offered) {
  std::vector<std::string> names;
  for (const Rung rung : offered) {
    names.push_back(name(rung));
    if (names.back() == wanted) return rung;
  }
  throw Error("there is no rung '{}'; there are: {}", wanted, fmt::join(names, ", "));
}

}  // namespace lacuna
