/* TCP over one slow link in ns-3. benchmarks/speed/ns3_tcp.py describes it on standard input:
 *
 *     link RATE_BPS DELAY_NS QUEUE_PACKETS LOSS SEED
 *     flow VARIANT START_NS
 *     measure FROM_NS UNTIL_NS
 *
 * DELAY_NS is the one-way delay. LOSS is the probability that a packet with data is lost. VARIANT
 * is a class of ns-3, such as TcpCubic. A flow sends until the end.
 *
 * For each flow, prints a line with a name and the number of bytes received between FROM_NS and
 * UNTIL_NS. The path is sender - router - receiver. The queue is in the router, without queue
 * discs.
 */
#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint32_t SEGMENT = 1448, BUFFER = 1 << 23; // bytes
constexpr uint16_t FIRST_PORT = 5000;
const char *const FAST = "100Gbps";

/* The counter of a flow's receiver. */
struct Count {
    Time from, until;
    uint64_t bytes = 0;

    void Take(Ptr<const Packet> packet, const Address &) {
        Time now = Simulator::Now();
        if (now >= from && now < until)
            bytes += packet->GetSize();
    }
};

/* Configure ns-3 like minip4's hosts. */
void Configure() {
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(BUFFER));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(BUFFER));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TypeId::LookupByName("ns3::TcpPrrRecovery")));
}

class Bottleneck {
public:
    Bottleneck() {
        m_nodes.Create(3);
        m_stack.SetIpv6StackInstall(false);
        m_stack.Install(m_nodes);
    }

    void Read(const std::string &line) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "link")
            AddLink(words);
        else if (what == "flow")
            AddFlow(words);
        else if (what == "measure")
            Measure(words);
        if (words.fail() || !(words >> std::ws).eof())
            throw std::runtime_error("cannot parse the line: " + line);
    }

    void Run() {
        Simulator::Stop(m_until);
        Simulator::Run();
        for (size_t i = 0; i < m_counts.size(); i++)
            std::cout << "received_" << i << " " << m_counts[i]->bytes << "\n";
        Simulator::Destroy();
    }

private:
    void AddLink(std::istringstream &words) {
        uint64_t rate_bps, delay_ns, seed;
        uint32_t queue;
        double loss;
        words >> rate_bps >> delay_ns >> queue >> loss >> seed;
        RngSeedManager::SetSeed(static_cast<uint32_t>(seed));
        PointToPointHelper wires;
        wires.DisableFlowControl(); // so that ns-3 adds no queue disc
        wires.SetDeviceAttribute("DataRate", StringValue(FAST));
        wires.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 1000000)));
        auto before = wires.Install(m_nodes.Get(0), m_nodes.Get(1));
        wires.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
        auto slow = wires.Install(m_nodes.Get(1), m_nodes.Get(2));
        auto sends = DynamicCast<PointToPointNetDevice>(slow.Get(0));
        sends->SetDataRate(DataRate(rate_bps));
        sends->GetQueue()->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, queue));
        auto loses = CreateObject<RateErrorModel>();
        loses->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        loses->SetRate(loss);
        slow.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(loses));
        Address(before, "10.0.1.0");
        m_receiver = Address(slow, "10.0.2.0").GetAddress(1);
        Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }

    static Ipv4InterfaceContainer Address(const NetDeviceContainer &devices, const char *network) {
        return Ipv4AddressHelper(network, "255.255.255.0").Assign(devices);
    }

    void AddFlow(std::istringstream &words) {
        std::string variant;
        uint64_t start_ns;
        words >> variant >> start_ns;
        uint16_t port = static_cast<uint16_t>(FIRST_PORT + m_counts.size());
        auto receiver = m_nodes.Get(2);
        PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        m_counts.push_back(std::make_unique<Count>());
        sinks.Install(receiver).Get(0)->TraceConnectWithoutContext(
            "Rx", MakeCallback(&Count::Take, m_counts.back().get()));
        auto kind = TypeId::LookupByName("ns3::" + variant);
        m_nodes.Get(0)->GetObject<TcpL4Protocol>()->SetAttribute("SocketType", TypeIdValue(kind));
        BulkSendHelper senders("ns3::TcpSocketFactory", InetSocketAddress(m_receiver, port));
        senders.SetAttribute("SendSize", UintegerValue(1 << 16));
        senders.Install(m_nodes.Get(0)).Get(0)->SetStartTime(NanoSeconds(start_ns));
    }

    void Measure(std::istringstream &words) {
        uint64_t from_ns, until_ns;
        words >> from_ns >> until_ns;
        m_until = NanoSeconds(until_ns);
        for (auto &count : m_counts) {
            count->from = NanoSeconds(from_ns);
            count->until = m_until;
        }
    }

    InternetStackHelper m_stack;
    NodeContainer m_nodes; // sender, router, receiver
    Ipv4Address m_receiver;
    std::vector<std::unique_ptr<Count>> m_counts;
    Time m_until;
};

} // namespace

int main() {
    Configure();
    Bottleneck bottleneck;
    for (std::string line; std::getline(std::cin, line);)
        bottleneck.Read(line);
    bottleneck.Run();
}
