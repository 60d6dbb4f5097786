#include "lacuna/ladder/rung.h"

#include <fmt/ranges.h>

#include <array>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr std::array kRungs = {Rung::disk_u8,        Rung::disk_bits, Rung::disk_bf16,
                               Rung::disk_positions, Rung::ram_u8,    Rung::ram_bits,
                               Rung::worker,         Rung::device,    Rung::kernel};
constexpr std::array<std::string_view, kRungs.size()> kNames = {
    "disk:u8",  "disk:bits", "disk:bf16", "disk:positions", "ram:u8",
    "ram:bits", "worker",    "device",    "kernel"};

}  // namespace

std::string_view name(Rung rung) { return kNames[size_t(rung)]; }

Rung rung_from_name(std::string_view name) {
  for (size_t i = 0; i < kRungs.size(); ++i)
    if (kNames[i] == name) return kRungs[i];
  throw Error("there is no rung '{}'; there are: {}", name, fmt::join(kNames, ", "));
}

std::span<const Rung> all_rungs() { return kRungs; }

bool is_stored(Rung rung) { return rung <= Rung::disk_positions; }

MaskForm form_of(Rung rung) {
  if (rung == Rung::disk_bits || rung == Rung::ram_bits) return MaskForm::bits;
  if (rung == Rung::disk_bf16) return MaskForm::bf16;
  return rung == Rung::disk_positions ? MaskForm::positions : MaskForm::u8;
}

bool loads_masks(Rung rung) { return rung != Rung::device && rung != Rung::kernel; }

}  // namespace lacuna
