#include "lacuna/screen/import/spreadsheet_date.h"

#include <gtest/gtest.h>

namespace lacuna {
namespace {

TEST(SpreadsheetDate, DatesLeadBackToNames) {
  for (const char* date : {"1-Oct", "01-Oct", "Oct-1", "Oct-01", "1-OCT", "1-Oct-24", "1-Oct-2024",
                           "2024-10-01", "2024-10-01 00:00:00"})
    EXPECT_EQ(name_before_date(date), "OCT1") << date;
  EXPECT_EQ(name_before_date("2-Sep"), "SEP2");
}

TEST(SpreadsheetDate, GenesAreNoDates) {
  for (const char* name : {"", "-", "OCT1", "YAL001C-A", "act1-129", "32-Oct", "0-Oct", "1-Okt",
                           "mar-x", "2024-13-01", "2024-10", "1-Oct-x", "1-Oct-1-2", "10-1"})
    EXPECT_FALSE(name_before_date(name)) << name;
}

}  // namespace
}  // namespace lacuna
