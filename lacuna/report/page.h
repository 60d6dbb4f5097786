// The page around the sections: head, style for light and dark, and the script that shows values on
// hover. Nothing in it comes from outside: the file opens offline, and its content security policy
// forbids the browser to fetch anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lacuna::report {

struct PageSection {
  std::string id, title, html;
};

// A whole HTML document. title, subtitle: text; lead: HTML above the first section.
std::string page(std::string_view title, std::string_view subtitle, std::string_view lead,
                 const std::vector<PageSection>& sections);

// A plot as a file of its own, in the colours of the page, light or dark as its viewer likes.
std::string standalone(const std::string& svg);

}  // namespace lacuna::report
