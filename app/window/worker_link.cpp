#include "app/window/worker_link.h"

#include "app/window/urgent_link.h"

namespace phasescope::app {
namespace {

class ClientLink : public WorkerLink {
 public:
  explicit ClientLink(protocol::ClientOptions options) : client_(std::move(options)) {}

  void start() override { client_.start(); }
  void restart() override { client_.restart(); }
  protocol::RequestId submit(const std::string& method, nlohmann::json params,
                             protocol::Callbacks callbacks, const std::string& tag) override {
    return client_.submit(method, std::move(params), std::move(callbacks), {tag, {}});
  }
  void cancel(protocol::RequestId id) override { client_.cancel(id); }
  std::size_t drain() override { return client_.drain(); }
  protocol::WorkerState state() const override { return client_.state(); }
  std::optional<protocol::DeathNotice> death() const override { return client_.death(); }
  std::string description() const override {
    const auto hello = client_.worker_hello();
    return hello ? "version " + hello->version : "";
  }
  void set_wake(std::function<void()> wake) override { client_.set_wake(std::move(wake)); }

 private:
  protocol::WorkerClient client_;
};

}  // namespace

std::unique_ptr<WorkerLink> link_to(protocol::WorkerCommand command) {
  protocol::ClientOptions options;
  options.command = std::move(command);
  return std::make_unique<UrgentLink>(std::make_unique<ClientLink>(std::move(options)));
}

}  // namespace phasescope::app
