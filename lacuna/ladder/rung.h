// A rung of the ladder: where a field lies until it is needed, and in which form.
//
//   disk:bits       {Place::disk, Form::bits}
//   worker          {Place::worker}
//   disk:u8@device  {Place::disk, Form::u8, Place::device}
//
// Places and forms are names that all kinds of data share. Which rungs a kind of data offers, and
// what they mean for it, is a list of its own (screen_rungs.h). All rungs of a list give the same
// numbers; time, bytes and memory differ.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

// From the far end of the ladder to the arithmetic. tiered: part in memory, the rest on disk.
enum class Place : uint8_t { disk, ram, tiered, worker, device, kernel };
enum class Form : uint8_t { none, u8, bits, bf16, positions, f32, chunks, resident };

struct Rung {
  Place place = Place::kernel;
  Form form = Form::none;                 // of what lies there; none: nothing does
  std::optional<Place> expanded_at = {};  // where a rung leaves that to choose

  auto operator<=>(const Rung&) const = default;

  static const Rung disk_u8, disk_bits, disk_bf16, disk_positions, ram_u8, ram_bits, worker, device,
      kernel;
};

inline constexpr Rung Rung::disk_u8 = {Place::disk, Form::u8};
inline constexpr Rung Rung::disk_bits = {Place::disk, Form::bits};
inline constexpr Rung Rung::disk_bf16 = {Place::disk, Form::bf16};
inline constexpr Rung Rung::disk_positions = {Place::disk, Form::positions};
inline constexpr Rung Rung::ram_u8 = {Place::ram, Form::u8};
inline constexpr Rung Rung::ram_bits = {Place::ram, Form::bits};
inline constexpr Rung Rung::worker = {Place::worker};
inline constexpr Rung Rung::device = {Place::device};
inline constexpr Rung Rung::kernel = {Place::kernel};

std::string_view name(Place place);
std::string_view name(Form form);  // "" for none
std::string name(Rung rung);       // "disk:u8"
// The rung of that name among those offered; throws Error, listing them.
Rung rung_from_name(std::string_view name, std::span<const Rung> offered);

}  // namespace lacuna
