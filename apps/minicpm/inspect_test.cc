// The built program, `minicpm inspect`, on the bundled tiny models and on broken copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli_test_process.h"
#include "tests/support/json_schema.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

json Inspect(const std::string& model, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"inspect", model, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = Minicpm(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(testing::ValidateText("inspect.schema.json", outcome.out), IsEmpty()) << outcome.out;
  return json::parse(outcome.out, nullptr, false);
}

class InspectEachFamily : public ::testing::TestWithParam<const char*> {};

TEST_P(InspectEachFamily, NumbersAgreeWithTheFiles) {
  const std::string model = TinyModel(GetParam());
  const json r = Inspect(model, {"--tensors"});
  EXPECT_EQ(r["family"], GetParam());
  const json config = json::parse(test::ReadFileBytes(model + "/config.json"));
  EXPECT_EQ(r["architecture"], config["architectures"][0]);
  EXPECT_EQ(r["language"]["hidden"], config["hidden_size"]);
  EXPECT_EQ(r["language"]["layers"], config["num_hidden_layers"]);
  EXPECT_EQ(r["language"]["vocab_rows"], config["vocab_size"]);
  EXPECT_EQ(r["context"], config["max_position_embeddings"]);
  EXPECT_EQ(r["vision"]["hidden"], config["vision_config"]["hidden_size"]);
  EXPECT_EQ(r["vision"]["drop_vision_last_layer"], config.value("drop_vision_last_layer", true));
  EXPECT_EQ(r["language"]["kind"], std::string(GetParam()) == "minicpm-v-2_6" ? "qwen2" : "qwen3");

  int64_t n_parameters = 0;
  for (const json& tensor : r["tensors"]) {
    int64_t n = 1;
    for (const json& dim : tensor["shape"]) n *= dim.get<int64_t>();
    n_parameters += n;
  }
  EXPECT_EQ(r["parameters"], n_parameters);
  int64_t n_tensors = 0;
  int64_t n_bytes = 0;
  for (const auto& [dtype, amount] : r["dtypes"].items()) {
    n_tensors += amount["tensors"].get<int64_t>();
    n_bytes += amount["bytes"].get<int64_t>();
  }
  EXPECT_EQ(n_tensors, static_cast<int64_t>(r["tensors"].size()));
  EXPECT_EQ(r["weight_bytes"], n_bytes);
  int64_t n_file_bytes = 0;
  for (const json& file : r["files"]) {
    EXPECT_EQ(file["bytes"], std::filesystem::file_size(model + "/" + file["name"].get<std::string>()));
    n_file_bytes += file["bytes"].get<int64_t>();
  }
  EXPECT_GT(n_file_bytes, n_bytes);  // the headers

  const json vocabulary = json::parse(test::ReadFileBytes(model + "/vocab.json"));
  EXPECT_EQ(r["tokenizer"]["vocab"], vocabulary.size());
  EXPECT_GT(r["tokenizer"]["merges"], 0);
  EXPECT_GT(r["tokenizer"]["added_tokens"], 0);
  std::vector<std::string> stops;
  for (const json& stop : r["stops"]) stops.push_back(stop["text"]);
  EXPECT_THAT(stops, ::testing::IsSupersetOf({"<|im_end|>", "<|endoftext|>"}));
  EXPECT_EQ(r["sampling"]["temperature"], 0.7);
}

TEST_P(InspectEachFamily, TheTableIsForReading) {
  const Outcome outcome = Minicpm({"inspect", TinyModel(GetParam())});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word : {GetParam(), "vision", "resampler", "language", "tokenizer", "context", "stops", "licence",
                           "files", "safetensors", "<|im_end|>"}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, InspectEachFamily,
                         ::testing::Values("minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"), [](const auto& suite) {
                           std::string name = suite.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(InspectHash, IsTheOneOfRun) {
  const std::string model = TinyModel("minicpm-v-4_5");
  EXPECT_TRUE(Inspect(model)["weights_sha256"].is_null());
  const json hashed = Inspect(model, {"--hash-weights"});
  const Outcome run = Minicpm({"run", model, "-p", "x", "--max-new-tokens", "1", "--json"});
  EXPECT_EQ(json::parse(run.out, nullptr, false)["model"]["weights_sha256"], hashed["weights_sha256"]);
}

class BrokenModel : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(TinyModel("minicpm-v-4_5"), dir_.path(), std::filesystem::copy_options::recursive);
  }
  void ExpectRefused(const std::string& part_of_sentence) {
    const Outcome outcome = Minicpm({"inspect", dir_.path(), "--json"});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("minicpm: "));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(part_of_sentence));
  }
  test::TempDir dir_;
};

TEST_F(BrokenModel, MissingShard) {
  std::filesystem::remove(dir_.File("model-00002-of-00002.safetensors"));
  ExpectRefused("model-00002-of-00002.safetensors");
}

TEST_F(BrokenModel, PointerInsteadOfWeights) {
  dir_.Write("model-00001-of-00002.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4567\n");
  ExpectRefused("git-lfs");
}

TEST_F(BrokenModel, ConfigThatIsNoJson) {
  dir_.Write("config.json", "{");
  ExpectRefused("config.json");
}

TEST_F(BrokenModel, ATemplateOfItsOwnIsAWarning) {
  dir_.Write("chat_template.jinja", "{{ messages }}");
  const Outcome outcome = Minicpm({"inspect", dir_.path(), "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const json r = json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(r["chat_template"], "different");
  EXPECT_EQ(r["warnings"].size(), 1u);
  const Outcome run = Minicpm({"run", dir_.path(), "-p", "x", "--max-new-tokens", "1", "--json"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.err, StartsWith("minicpm: warning: "));
}

}  // namespace
}  // namespace minicpm::cli
