// Implementation of golden_case.h.
#include "tests/golden/golden_case.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "os/mapped_file.h"

namespace minicpm::test {
namespace {

std::string Root() { return std::string(MINICPM_SOURCE_DIR) + "/tests/data/golden/"; }

template <class T>
T Must(Result<T> result) {
  if (!result.has_value()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::abort();
  }
  return std::move(result).value();
}

}  // namespace

GoldenCase ReadGoldenCase(const std::string& family, const std::string& name) {
  GoldenCase c;
  c.family = family;
  c.name = name;
  c.folder = Root() + family + "/" + name;
  const auto json = nlohmann::json::parse(Must(ReadWholeFile(c.folder + "/case.json", 8 << 20)));
  c.prompt = json.at("prompt");
  c.text = json.at("text");
  for (const auto& image : json.at("images")) c.images.push_back(Root() + image.get<std::string>());
  c.prompt_ids = json.at("prompt_ids").get<std::vector<int32_t>>();
  c.token_ids = json.at("token_ids").get<std::vector<int32_t>>();
  c.margins = json.at("margins").get<std::vector<double>>();
  c.slice_grids = json.at("slice_grids").get<std::vector<std::vector<int64_t>>>();
  for (const auto& v : json.at("views")) {
    c.views.push_back({v.at("image"), v.at("width"), v.at("height"), v.at("grid").at(0), v.at("grid").at(1),
                       v.at("first_token"), v.at("pixels_sha256")});
  }
  if (json.contains("sounds")) {
    for (const auto& s : json.at("sounds")) {
      c.sounds.push_back({Root() + s.at("file").get<std::string>(), s.at("first_token"), s.at("rows")});
    }
  }
  return c;
}

GoldenStages::GoldenStages(const std::string& folder)
    : file_(Must(SafetensorsFile::Open(folder + "/stages.safetensors"))) {
  for (const auto& entry : file_.entries()) by_name_[entry.name] = entry.view;
}

std::vector<std::string> GoldenStages::keys() const {
  std::vector<std::string> keys;
  for (const auto& [name, view] : by_name_) {
    if (!name.ends_with("#rows")) keys.push_back(name);
  }
  return keys;
}

TensorView GoldenStages::Values(const std::string& key) const {
  const auto it = by_name_.find(key);
  if (it == by_name_.end()) {
    std::fprintf(stderr, "no golden stage %s\n", key.c_str());
    std::abort();
  }
  return it->second;
}

std::vector<int64_t> GoldenStages::Rows(const std::string& key) const {
  std::vector<int64_t> rows;
  const auto it = by_name_.find(key + "#rows");
  const int64_t n = Values(key).shape[0];
  for (int64_t i = 0; i < n; ++i) {
    rows.push_back(it == by_name_.end() ? i : int64_t{it->second.as<int32_t>()[i]});
  }
  return rows;
}

}  // namespace minicpm::test
