// Text for people: numbers as they read them, and words as their shell does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lacuna {

std::string with_commas(uint64_t number);     // "332,313"
std::string format_bytes(uint64_t bytes);     // "2.55 MB", "855 GB"; powers of 1000
std::string format_duration(double seconds);  // "1 h 02 min", "3 min 20 s", "12 s"
std::string format_rate(double per_second);   // "2,410,000", "12.3"
std::string format_digits(double value);      // three of them: "1250", "12.3", "0.00310"

// A word of a command that is to be copied into a shell: in quotes where it needs some.
std::string shell_word(std::string_view word);

}  // namespace lacuna
