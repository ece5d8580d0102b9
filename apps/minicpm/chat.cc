// `minicpm chat`: a conversation, turn by turn. The whole conversation is handed to the session every time; what it
// holds already costs nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer_stream.h"
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "line_editor.h"
#include "loaded_model.h"
#include "media_loader.h"
#include "messages.h"
#include "options.h"
#include "os/atomic_file.h"

namespace minicpm::cli {
namespace {

constexpr const char* kFooter =
    R"(Type a message and press Enter; a backslash at the end of a line goes on with the next one. Commands begin with a slash,
/help lists them. Ctrl-C stops the answer and not the program, Ctrl-D leaves.
Without a terminal on stdin every line is one message or command: answers and what /help and /history show go to stdout,
all else to stderr, and the exit code is 1 when anything failed.

Examples:
  minicpm chat models/MiniCPM-V-4_5
  minicpm chat models/MiniCPM-V-4_5 --image plan.png -p "What does this plan show?"
  printf '/image part.png\nIs there a scratch?\nWhere?\n' | minicpm chat models/MiniCPM-V-4_5 --temperature 0)";

constexpr const char* kHelp =
    "/image FILE   attach a picture to the next message; several media are possible\n"
    "/audio FILE   attach sound (o 4.5); an empty line sends it\n"
    "/video FILE   attach a video\n"
    "/system TEXT  set the system message; without TEXT remove it\n"
    "/reset        forget the conversation, keep the system message\n"
    "/history      show the conversation so far\n"
    "/save FILE    write the conversation as JSON, for `minicpm run --messages` or `minicpm chat --messages`\n"
    "/help         show this\n"
    "/quit         leave (also Ctrl-D)\n"
    "A message that begins with a slash is typed with a space in front. A backslash at the end of a line goes on with "
    "the\n"
    "next line. Ctrl-C stops the answer.\n";

struct ChatFlags {
  std::string model;
  std::optional<std::string> prompt;
  MediaFlags media;
  std::optional<std::string> messages;
  std::string history_file;
  GenerationFlags generation;
};

void AddOptions(CLI::App& app, ChatFlags& f) {
  AddText(app, "MODEL", f.model, "folder of an official checkpoint, or a bundle", "")->required();
  AddOptionalText(app, "-p,--prompt", f.prompt, "the first message", "TEXT");
  AddMediaOptions(app, f.media, "for the first message");
  AddOptionalText(app, "--messages", f.messages,
                  "go on with this conversation (OpenAI-style messages JSON, as /save writes)", "FILE");
  AddText(app, "--history", f.history_file, "keep typed lines in this file for the next time (default: in memory only)",
          "FILE");
  AddGenerationOptions(app, f.generation);
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// A path as people type or drop it into a terminal: quotes around it, ~/ in front.
std::string TypedPath(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  const char* home = text.starts_with("~/") ? std::getenv("HOME") : nullptr;
  return home != nullptr ? home + std::string(text.substr(1)) : std::string(text);
}

// The conversation, and what the lines do to it. Every method that returns a Status leaves the conversation usable.
class Chat {
 public:
  // Lifetime: all but `model` outlive this.
  Chat(const ChatFlags& flags, MediaLoader& loader, LoadedModel model, Console& console)
      : flags_(flags),
        loader_(loader),
        model_(std::move(model)),
        console_(console),
        seed_(ChooseSeed(flags.generation)) {}

  Status Begin(Conversation conversation) {
    conversation_ = std::move(conversation);
    if (flags_.generation.system.has_value()) SetSystem(conversation_, *flags_.generation.system);
    if (model_.engine->hears()) MINICPM_TRY(LoadVideoSounds(conversation_));
    for (const MediaFlags::File& file : flags_.media.files) MINICPM_TRY(Attach(file.type, file.path));
    const bool open = !conversation_.messages.empty() && conversation_.messages.back().role != "assistant" &&
                      conversation_.messages.back().role != "system";
    if (flags_.prompt.has_value()) return Say(*flags_.prompt);
    return open ? Answer() : Status();
  }

  // One line from the user.
  Status Take(const std::string& line) {
    if (!line.starts_with('/')) {
      const std::string_view text = Trim(line);
      return text.empty() && pending_.empty() ? Status() : Say(std::string(text));
    }
    const size_t space = line.find_first_of(" \t");
    const std::string command = line.substr(0, space);
    const std::string_view rest = space == std::string::npos ? "" : Trim(std::string_view(line).substr(space));
    if (command == "/image") return Attach(MediaType::kImage, TypedPath(rest));
    if (command == "/audio") return Attach(MediaType::kAudio, TypedPath(rest));
    if (command == "/video") return Attach(MediaType::kVideo, TypedPath(rest));
    if (command == "/system") return SetSystemText(std::string(rest));
    if (command == "/save") return Save(TypedPath(rest));
    if (!rest.empty() && command.size() > 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  Printable(command, 60) + " takes nothing after it; /help lists the commands");
    }
    if (command == "/reset") return Reset();
    if (command == "/history") return ShowHistory();
    if (command == "/help") {
      console_.Answer(kHelp);
      return {};
    }
    if (command == "/quit" || command == "/exit") {
      done_ = true;
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument, "unknown command " + Printable(command, 60) + ", /help lists them");
  }

  bool done() const { return done_; }
  const LoadedModel& model() const { return model_; }

 private:
  Status Attach(MediaType type, const std::string& path) {
    if (path.empty()) {
      const char* command = type == MediaType::kImage ? "/image" : type == MediaType::kAudio ? "/audio" : "/video";
      return Fail(ErrorCode::kInvalidArgument, std::string(command) + ": expected a file name");
    }
    MINICPM_ASSIGN(AddressedMedia medium, loader_.LoadFile(type, path));
    if (medium.part.video != nullptr && model_.engine->hears()) {
      MINICPM_ASSIGN(medium.part.video, LoadVideoSound(medium.part.video));
    }
    console_.Note(Printable(path, 400) + " (" + Describe(medium.part) + ") goes with the next message");
    pending_.push_back(std::move(medium));
    return {};
  }

  Status SetSystemText(const std::string& text) {
    SetSystem(conversation_, text);
    console_.Note(text.empty() ? "the system message is removed" : "the system message is set");
    return {};
  }

  Status Reset() {
    const std::vector<Message>& old = conversation_.messages;
    Conversation fresh;
    if (!old.empty() && old.front().role == "system") fresh.messages.push_back(old.front());
    conversation_ = std::move(fresh);
    pending_.clear();
    n_turns_ = 0;
    console_.Note("the conversation is empty");
    return {};
  }

  static std::string Shown(const MessagePart& part) {
    return std::string("[") + KindName(part) + " " + Printable(NameOfMedium(part), 400) + "]";
  }

  Status ShowHistory() {
    std::string text;
    for (const Message& message : conversation_.messages) {
      text += message.role + ":";
      for (const MessagePart& part : message.parts) {
        text += " " + (part.is_text() ? part.text : Shown(part));
      }
      for (const ToolCall& call : message.tool_calls) text += " [call of " + Printable(call.name) + "]";
      text += '\n';
    }
    for (const AddressedMedia& medium : pending_) text += "next message: " + Shown(medium.part) + "\n";
    console_.Answer(text);
    return {};
  }

  Status Save(const std::string& path) {
    if (path.empty()) return Fail(ErrorCode::kInvalidArgument, "/save: expected a file name");
    MINICPM_ASSIGN(AtomicFile file, AtomicFile::Create(path));
    MINICPM_TRY(file.Write(WriteConversation(conversation_)));
    MINICPM_TRY(file.Commit());
    console_.Note("saved " + std::to_string(conversation_.messages.size()) + " messages to " + Printable(path, 400));
    return {};
  }

  Status Say(std::string text) {
    const size_t n_messages = conversation_.messages.size();
    const size_t n_media = conversation_.media.size();
    Message message;
    for (AddressedMedia& medium : pending_) {
      message.parts.push_back(medium.part);
      conversation_.media.push_back(std::move(medium));
    }
    pending_.clear();
    if (!text.empty()) message.parts.push_back({std::move(text)});
    conversation_.messages.push_back(std::move(message));
    Status status = Answer();
    const bool unanswered = conversation_.messages.back().role != "assistant";
    if (!status.has_value() || unanswered) {
      conversation_.messages.resize(n_messages);
      conversation_.media.resize(n_media);
      console_.Note("the message was not kept; /reset starts a new conversation");
    }
    return status;
  }

  // Generates for the conversation as it stands and adds the answer, also one that was stopped half-way.
  Status Answer() {
    PromptOptions prompt_options = ResolvePrompt(flags_.generation);
    prompt_options.tools_json = conversation_.tools_json;
    prompt_options.video = ResolveVideoChoice(flags_.media);
    MINICPM_ASSIGN(const Prompt prompt, model_.engine->BuildPrompt(conversation_.messages, prompt_options));
    GenerationOptions options = ResolveGeneration(flags_.generation, model_.engine->default_sampling(),
                                                  seed_ + static_cast<uint64_t>(n_turns_));
    options.cancel = &InterruptFlag();
    AnswerPrinter printer(console_, prompt, {.print_answer = true, .print_reasoning = flags_.generation.show_thinking});
    ClearInterrupt();
    if (AskedToLeave()) return {};
    auto result = model_.session->Generate(prompt, options, &printer);
    printer.Finish();
    ClearInterrupt();
    if (!result.has_value()) return std::unexpected(std::move(result).error());
    ++n_turns_;
    Explain(*result);
    SplitAnswer answer = SplitReasoning(result->text, prompt.starts_inside_think);
    if (result->token_ids.empty() && result->finish_reason == FinishReason::kCancelled) return {};
    Message message{"assistant", {{std::move(answer.text)}}, std::nullopt, {}};
    if (!answer.reasoning.empty()) message.reasoning = std::move(answer.reasoning);
    conversation_.messages.push_back(std::move(message));
    return {};
  }

  void Explain(const GenerationResult& result) {
    switch (result.finish_reason) {
      case FinishReason::kStop:
        break;
      case FinishReason::kLength:
        console_.Note("the answer was cut (--max-new-tokens)");
        break;
      case FinishReason::kContext:
        console_.Note("the answer was cut: the context is full; /reset starts over");
        break;
      case FinishReason::kCancelled:
        console_.Note("stopped");
        break;
    }
    const int64_t held = model_.session->length();
    console_.Progress("[" + SummaryLine(result) + "; " + std::to_string(held) + " tokens held, " +
                      std::to_string(result.n_cached_tokens) + " reused]");
  }

  const ChatFlags& flags_;
  MediaLoader& loader_;
  LoadedModel model_;
  Console& console_;
  const uint64_t seed_;
  Conversation conversation_;
  std::vector<AddressedMedia> pending_;
  int64_t n_turns_ = 0;
  bool done_ = false;
};

// One message or command, which may go over several lines.
ReadOutcome ReadInput(LineEditor& editor, std::string& text) {
  text.clear();
  std::string line;
  const char* prompt = "> ";
  while (true) {
    const ReadOutcome outcome = editor.Read(prompt, line);
    if (outcome == ReadOutcome::kInterrupted) return outcome;
    if (outcome == ReadOutcome::kEnd) return text.empty() ? outcome : ReadOutcome::kLine;
    if (!line.ends_with('\\') || text.size() > kMaxLineBytes) {
      text += line;
      return ReadOutcome::kLine;
    }
    line.back() = '\n';
    text += line;
    prompt = ". ";
  }
}

// Until the user leaves. True when nothing failed.
bool Loop(Chat& chat, LineEditor& editor, Console& console) {
  bool all_well = true;
  int n_interrupts = 0;
  std::string text;
  while (!chat.done() && !AskedToLeave()) {
    const ReadOutcome outcome = ReadInput(editor, text);
    if (outcome == ReadOutcome::kEnd) break;
    if (outcome == ReadOutcome::kInterrupted) {
      ClearInterrupt();
      if (++n_interrupts >= 2) console.Note("Ctrl-D or /quit leaves, /help lists the commands");
      continue;
    }
    n_interrupts = 0;
    if (const Status status = chat.Take(text); !status.has_value()) {
      console.Error(status.error().message);
      all_well = false;
    }
  }
  return all_well && !AskedToLeave() && !console.out_failed();
}

Result<Conversation> FirstMessages(const ChatFlags& f, MediaLoader& loader) {
  if (f.messages.has_value()) return ReadConversation(*f.messages, loader);
  return Conversation();
}

}  // namespace

int ChatCommand(const Arguments& arguments) {
  CLI::App app("Talks with a model turn by turn; answers appear as they are made.", "minicpm chat");
  ChatFlags flags;
  AddOptions(app, flags);
  app.footer(kFooter);
  if (const auto code = ParseArguments(app, arguments)) return *code;
  Console console(flags.generation.quiet);
  if (const Status usage = CheckGenerationFlags(flags.generation); !usage.has_value()) {
    console.Error(usage.error().message);
    return kExitUsage;
  }
  MediaLoader loader(flags.media);
  auto first = FirstMessages(flags, loader);
  auto model = first.has_value() ? LoadModel(flags.model, flags.generation, console)
                                 : Result<LoadedModel>(std::unexpected(first.error()));
  if (!model.has_value()) {
    console.Error(model.error().message);
    return kExitFailed;
  }
  CatchInterrupts();
  const bool terminal = isatty(STDIN_FILENO) == 1;
  Chat chat(flags, loader, std::move(*model), console);
  if (terminal) {
    console.Note(std::string(chat.model().engine->family_name()) + " on " +
                 std::to_string(chat.model().backend->n_threads()) + " threads (" + chat.model().backend->isa() +
                 "); /help lists the commands, Ctrl-D leaves");
  }
  bool all_well = true;
  if (const Status status = chat.Begin(std::move(*first)); !status.has_value()) {
    console.Error(status.error().message);
    all_well = false;
  }
  const std::unique_ptr<LineEditor> editor = terminal ? NewTerminalEditor(flags.history_file) : NewPlainEditor(false);
  all_well = Loop(chat, *editor, console) && all_well;
  // Who sits at a terminal has seen what failed and has gone on.
  return all_well || (terminal && !AskedToLeave()) ? kExitDone : kExitFailed;
}

}  // namespace minicpm::cli
