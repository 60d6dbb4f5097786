// Numbers as people read them, for the program's tables and for reports.
#pragma once

#include <cstdint>
#include <string>

namespace lacuna {

std::string with_commas(uint64_t number);     // "332,313"
std::string format_bytes(uint64_t bytes);     // "2.55 MB", "855 GB"; powers of 1000
std::string format_duration(double seconds);  // "1 h 02 min", "3 min 20 s", "12 s"
std::string format_rate(double per_second);   // "2,410,000", "12.3"
std::string format_digits(double value);      // three of them: "1250", "12.3", "0.00310"

}  // namespace lacuna
