// Text that may hold anything (names from files, what a library throws) as one line for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lacuna {

// Bytes of a message, or of a cell of a table, that are shown at most.
constexpr size_t kLongestMessage = 2000;

// Control characters, and bytes that are not UTF-8, become visible ("\n", "\x1b", "\x00"), so that
// nothing ends a message early or drives a terminal. What is longer than `most` bytes keeps its
// beginning and its end: "aaa ... (10,000,000 bytes in all) ... zzz". The result is UTF-8 of at
// most `most` bytes, and printable() of it is itself. `most` is 100 or more.
std::string printable(std::string_view text, size_t most = kLongestMessage);

}  // namespace lacuna
