#include "lacuna/screen/import/json_outline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/core/testing.h"

namespace lacuna {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The values of "wanted", of a text that lies in a padded buffer.
std::vector<std::string> values(const std::string& text) {
  const std::string padded = text + std::string(256, ' ');
  JsonOutline outline;
  std::vector<std::string> found;
  for (const std::string_view value :
       outline.values(std::string_view(padded).substr(0, text.size()), "wanted"))
    found.emplace_back(value);
  return found;
}

std::string random_text(Random& random) {
  const std::string letters = "ab{}[]:,\"\\ \n\twanted";
  std::string text;
  for (uint64_t i = random.below(80); i > 0; --i) text += letters[random.below(letters.size())];
  return text;
}

OrderedJson random_json(Random& random, int depth) {
  switch (depth == 0 ? random.below(4) : random.below(6)) {
    case 0:
      return random.normal();
    case 1:
      return random_text(random);
    case 2:
      return nullptr;
    case 3:
      return random.below(2) == 0;
    case 4: {
      OrderedJson list = OrderedJson::array();
      for (uint64_t i = random.below(6); i > 0; --i) list.push_back(random_json(random, depth - 1));
      return list;
    }
    default: {
      OrderedJson object = OrderedJson::object();
      for (uint64_t i = random.below(6); i > 0; --i)
        object[random.below(4) == 0 ? "wanted" : random_text(random)] =
            random_json(random, depth - 1);
      return object;
    }
  }
}

TEST(JsonOutline, FindsWhatAnotherParserFinds) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    OrderedJson list = OrderedJson::array();
    for (uint64_t i = 1 + random.below(4); i > 0; --i) {
      OrderedJson object = random_json(random, 3);
      if (!object.is_object()) object = OrderedJson::object();
      object["wanted"] = random_json(random, 3);
      list.push_back(object);
    }
    const std::string text = list.dump(random.below(2) == 0 ? -1 : 2);
    const auto found = values(text);
    ASSERT_EQ(found.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i)
      ASSERT_EQ(OrderedJson::parse(found[i]), list[i]["wanted"]) << text;
    for (size_t cut = 0; cut < text.size(); cut += 1 + random.below(20))
      ASSERT_THROW(values(text.substr(0, cut)), Error) << text.substr(0, cut);
  }
}

TEST(JsonOutline, OtherTextIsRefused) {
  for (const char* text : {"",
                           " ",
                           "{}",
                           "[]",
                           "3",
                           "[3]",
                           "[{}]",
                           "[{\"wanted\"}]",
                           "[{\"wanted\": }]",
                           "[{\"wanted\": 1,}]",
                           "[{\"wanted\": 1]",
                           "[{\"wanted\" 1}]",
                           "[{wanted: 1}]",
                           "[{\"wanted\": 1}]]",
                           "[{\"wanted\": 1}] 2",
                           "[{\"wanted\": 1},]",
                           "[{\"wanted\": ]}]",
                           "[{\"other\": 1}]",
                           "[{\"wanted\": \"\xff\"}]",
                           "[{\"wanted\": \"open}]"})
    EXPECT_THROW(values(text), Error) << text;
  EXPECT_EQ(values("[{\"a\": {\"wanted\": 2}, \"wanted\": 1}]"), std::vector<std::string>{"1"});
}

}  // namespace
}  // namespace lacuna
