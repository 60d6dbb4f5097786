// Spreadsheets take some gene names for dates: OCT1 becomes 1-Oct. What a date was before cannot be
// known for sure (OCT1 and OCT01 give the same), so such a name stays unknown, but a message can
// say what happened.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lacuna {

// "OCT1" for 1-Oct, 01-Oct, Oct-1, Oct-01, 1-Oct-24 and 2024-10-01 (as spreadsheets write them,
// with or without a time of day behind); nothing for what is no date.
std::optional<std::string> name_before_date(std::string_view cell);

}  // namespace lacuna
