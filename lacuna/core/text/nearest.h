// "Did you mean ...?": the known word that looks most like a given one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lacuna {

// How many letters must be changed, added or dropped to turn one word into the other; upper and
// lower case count as the same letter.
size_t letters_apart(std::string_view a, std::string_view b);
// The first of the nearest ones, by their first 100 letters; empty where there are none.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace lacuna
