#include "lacuna/ladder/rung.h"

#include <gtest/gtest.h>

#include "lacuna/core/testing.h"
#include "lacuna/ladder/screen_rungs.h"

namespace lacuna {
namespace {

TEST(Rung, ScreensHaveTheirNamesInOrder) {
  std::vector<std::string> names;
  for (const Rung rung : kScreenRungs) {
    names.push_back(name(rung));
    EXPECT_EQ(rung_from_name(names.back(), kScreenRungs), rung);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"disk:u8", "disk:bits", "disk:bf16", "disk:positions",
                                             "ram:u8", "ram:bits", "worker", "device", "kernel"}));
  EXPECT_ERROR(rung_from_name("paper", kScreenRungs),
               "there is no rung 'paper'; there are: disk:u8, disk:bits, disk:bf16, "
               "disk:positions, ram:u8, ram:bits, worker, device, kernel");
  EXPECT_ERROR(rung_from_name("ram:bf16", kScreenRungs), "there is no rung 'ram:bf16'");
}

// Another kind of data has a list of its own, of the same places and forms.
TEST(Rung, AnotherListTakesTheSameType) {
  const std::vector<std::pair<Rung, std::string>> offered = {
      {{Place::disk, Form::f32}, "disk:f32"},
      {{Place::ram, Form::chunks}, "ram:chunks"},
      {{Place::tiered}, "tiered"},
      {{Place::disk, Form::u8, Place::worker}, "disk:u8@worker"},
      {{Place::disk, Form::u8, Place::device}, "disk:u8@device"},
      {{Place::device, Form::resident}, "device:resident"}};
  std::vector<Rung> rungs;
  for (const auto& [rung, words] : offered) rungs.push_back(rung);
  for (const auto& [rung, words] : offered) {
    EXPECT_EQ(name(rung), words);
    EXPECT_EQ(rung_from_name(words, rungs), rung);
    EXPECT_ERROR(rung_from_name(words, kScreenRungs), words);
  }
}

// What each rung of a screen means, written out.
TEST(Rung, WhatScreensAreTold) {
  struct Row {
    Rung rung;
    bool stored, held, loads, fills, device, masks;
    MaskForm form;
  };
  const std::vector<Row> rows = {
      {Rung::disk_u8, true, false, true, false, false, true, MaskForm::u8},
      {Rung::disk_bits, true, false, true, true, false, true, MaskForm::bits},
      {Rung::disk_bf16, true, false, true, true, false, true, MaskForm::bf16},
      {Rung::disk_positions, true, false, true, true, false, true, MaskForm::positions},
      {Rung::ram_u8, false, true, true, false, false, true, MaskForm::u8},
      {Rung::ram_bits, false, true, true, true, false, true, MaskForm::bits},
      {Rung::worker, false, false, true, true, false, true, MaskForm::u8},
      {Rung::device, false, false, false, false, true, true, MaskForm::u8},
      {Rung::kernel, false, false, false, false, false, false, MaskForm::u8}};
  ASSERT_EQ(rows.size(), kScreenRungs.size());
  for (const Row& row : rows) {
    SCOPED_TRACE(name(row.rung));
    EXPECT_EQ(is_stored(row.rung), row.stored);
    EXPECT_EQ(is_held(row.rung), row.held);
    EXPECT_EQ(is_made_before(row.rung), row.stored || row.held);
    EXPECT_EQ(loads_masks(row.rung), row.loads);
    EXPECT_EQ(makes_masks_in_loader(row.rung), row.rung == Rung::worker);
    EXPECT_EQ(fills_records(row.rung), row.fills);
    EXPECT_EQ(makes_masks_on_device(row.rung), row.device);
    EXPECT_EQ(has_masks(row.rung), row.masks);
    EXPECT_EQ(mask_form(row.rung), row.form);
  }
}

}  // namespace
}  // namespace lacuna
