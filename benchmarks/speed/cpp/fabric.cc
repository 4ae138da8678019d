/* A fabric of IPv4 routers in ns-3. benchmarks/speed/ns3.py describes it on standard input:
 *
 *     router
 *     host ADDRESS
 *     link NODE NODE RATE_BPS DELAY_NS
 *     route NODE ADDRESS LENGTH NEIGHBOUR...
 *     flow HOST HOST START_NS GAP_NS COUNT BYTES
 *
 * Routers and hosts are nodes. They have the numbers 0, 1, ... in the order of their lines. If a
 * route has several neighbours, all packets of a pair of hosts take the same one. BYTES is the
 * length of the UDP payload.
 *
 * Prints the results, a name and a number per line. Features that an ns-3 router does not need are
 * disabled: queue discs, flow control, IPv6, ARP, checksums. A hash finds the route of a packet.
 * The routing protocols of ns-3 search lists, and this would dominate the cost of large fabrics.
 */
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint16_t PORT = 9; // one port for all flows of a host, because ns-3 searches a list

uint64_t g_hops;     // number of packets forwarded by routers
uint64_t g_received; // number of packets received by their destination hosts

/* Depending on its version, ns-3 passes the callbacks of RouteInput by value or by reference. */
template <typename> struct Signature;
template <typename... T>
struct Signature<bool (Ipv4RoutingProtocol::*)(T...)> {
    template <size_t I> using Argument = std::tuple_element_t<I, std::tuple<T...>>;
};
using Input = Signature<decltype(&Ipv4RoutingProtocol::RouteInput)>;

/* Longest prefix match; a hash of both addresses selects one of several next hops. */
class Routes : public Ipv4RoutingProtocol {
public:
    void Own(Ipv4Address address) { m_own = address; }

    void Add(Ipv4Address prefix, int length, std::vector<Ptr<Ipv4Route>> hops) {
        m_routes[length][Key(prefix, length)] = std::move(hops);
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header &header, Ptr<NetDevice>,
                               Socket::SocketErrno &error) override {
        auto route = Find(header);
        error = route ? Socket::ERROR_NOTERROR : Socket::ERROR_NOROUTETOHOST;
        return route;
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header &header, Ptr<const NetDevice> device,
                    Input::Argument<3> forward, Input::Argument<4>, Input::Argument<5> deliver,
                    Input::Argument<6>) override {
        if (header.GetDestination() == m_own) {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
            return true;
        }
        auto route = Find(header);
        if (!route)
            return false;
        g_hops++;
        forward(route, packet, header);
        return true;
    }

    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4> ipv4) override { m_ipv4 = ipv4; }
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

private:
    static uint32_t Key(Ipv4Address address, int length) {
        return length == 0 ? 0 : address.Get() >> (32 - length);
    }

    Ptr<Ipv4Route> Find(const Ipv4Header &header) const {
        for (const auto &[length, routes] : m_routes) {
            auto found = routes.find(Key(header.GetDestination(), length));
            if (found == routes.end())
                continue;
            const auto &hops = found->second;
            return hops.size() == 1 ? hops[0] : hops[Hash(header) % hops.size()];
        }
        return nullptr;
    }

    uint32_t Hash(const Ipv4Header &header) const {
        uint64_t pair = uint64_t{header.GetSource().Get()} << 32 | header.GetDestination().Get();
        uint64_t salt = reinterpret_cast<uintptr_t>(this) / sizeof(*this); // differs between routers
        return static_cast<uint32_t>(((pair ^ salt) * 0x9E3779B97F4A7C15) >> 32);
    }

    Ptr<Ipv4> m_ipv4;
    Ipv4Address m_own;
    std::map<int, std::unordered_map<uint32_t, std::vector<Ptr<Ipv4Route>>>, std::greater<int>>
        m_routes;
};

class RoutesHelper : public Ipv4RoutingHelper {
public:
    RoutesHelper *Copy() const override { return new RoutesHelper(*this); }
    Ptr<Ipv4RoutingProtocol> Create(Ptr<Node>) const override { return CreateObject<Routes>(); }
};

/* Sends at a constant rate. */
struct Flow {
    Ptr<Socket> socket;
    Address destination;
    Time gap;
    uint64_t left;
    uint32_t bytes;

    void Send() {
        socket->SendTo(Create<Packet>(bytes), 0, destination);
        if (--left > 0)
            Simulator::Schedule(gap, &Flow::Send, this);
    }
};

void Receive(Ptr<Socket> socket) {
    while (socket->Recv())
        g_received++;
}

class Fabric {
public:
    Fabric() {
        m_stack.SetIpv6StackInstall(false);
        m_stack.SetRoutingHelper(RoutesHelper());
        m_wires.DisableFlowControl();
    }

    void Read(const std::string &line) {
        std::istringstream words(line);
        std::string what;
        words >> what;
        if (what == "router" || what == "host")
            AddNode(words);
        else if (what == "link")
            AddLink(words);
        else if (what == "route")
            AddRoute(words);
        else if (what == "flow")
            AddFlow(words);
        if (words.fail() && !words.eof())
            throw std::runtime_error("cannot parse the line: " + line);
    }

private:
    using Pair = std::pair<uint32_t, uint32_t>;

    void AddNode(std::istringstream &words) {
        auto node = CreateObject<Node>();
        m_stack.Install(node);
        std::string address;
        if (words >> address) { // the node is a host
            Own(node)->Own(Ipv4Address(address.c_str()));
            auto socket = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
            socket->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
            socket->SetRecvCallback(MakeCallback(&Receive));
            m_sockets[m_nodes.size()] = socket;
            m_addresses[m_nodes.size()] = Ipv4Address(address.c_str());
        }
        m_nodes.push_back(node);
    }

    void AddLink(std::istringstream &words) {
        uint32_t a, b;
        uint64_t rate_bps, delay_ns;
        words >> a >> b >> rate_bps >> delay_ns;
        m_wires.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_bps)));
        m_wires.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
        auto devices = m_wires.Install(m_nodes.at(a), m_nodes.at(b));
        auto address_a = AddInterface(a, devices.Get(0)), address_b = AddInterface(b, devices.Get(1));
        m_hops[{a, b}] = Hop(devices.Get(0), address_a, address_b);
        m_hops[{b, a}] = Hop(devices.Get(1), address_b, address_a);
    }

    Ipv4Address AddInterface(uint32_t number, Ptr<NetDevice> device) {
        auto ipv4 = m_nodes[number]->GetObject<Ipv4>();
        auto host = m_addresses.find(number);
        auto address = host == m_addresses.end() ? Ipv4Address(m_next_address++) : host->second;
        uint32_t interface = ipv4->AddInterface(device);
        ipv4->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask::GetOnes()));
        ipv4->SetUp(interface);
        return address;
    }

    static Ptr<Ipv4Route> Hop(Ptr<NetDevice> device, Ipv4Address source, Ipv4Address gateway) {
        auto route = Create<Ipv4Route>();
        route->SetOutputDevice(device);
        route->SetSource(source);
        route->SetGateway(gateway);
        return route;
    }

    void AddRoute(std::istringstream &words) {
        uint32_t number, neighbour;
        std::string prefix;
        int length;
        words >> number >> prefix >> length;
        std::vector<Ptr<Ipv4Route>> hops;
        while (words >> neighbour)
            hops.push_back(m_hops.at({number, neighbour}));
        Own(m_nodes.at(number))->Add(Ipv4Address(prefix.c_str()), length, std::move(hops));
    }

    void AddFlow(std::istringstream &words) {
        uint32_t source, destination;
        uint64_t start_ns, gap_ns;
        auto flow = std::make_unique<Flow>();
        words >> source >> destination >> start_ns >> gap_ns >> flow->left >> flow->bytes;
        flow->socket = m_sockets.at(source);
        flow->destination = InetSocketAddress(m_addresses.at(destination), PORT);
        flow->gap = NanoSeconds(gap_ns);
        Simulator::Schedule(NanoSeconds(start_ns), &Flow::Send, flow.get());
        m_flows.push_back(std::move(flow));
    }

    static Ptr<Routes> Own(Ptr<Node> node) {
        return DynamicCast<Routes>(node->GetObject<Ipv4>()->GetRoutingProtocol());
    }

    InternetStackHelper m_stack;
    PointToPointHelper m_wires;
    std::vector<Ptr<Node>> m_nodes;
    std::map<uint32_t, Ipv4Address> m_addresses; // host -> its address
    std::map<uint32_t, Ptr<Socket>> m_sockets;   // host -> its socket
    std::map<Pair, Ptr<Ipv4Route>> m_hops;       // (node, neighbour) -> route
    std::vector<std::unique_ptr<Flow>> m_flows;
    uint32_t m_next_address = 0xAC100000; // next address of a router interface, from 172.16.0.0
};

double CpuSeconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double ResidentMb() {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> pages;
    return 1e-6 * static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

/* End the simulation; return whether logging was compiled in: it costs time even if disabled. */
bool DestroyWithLog() {
    auto components = LogComponent::GetComponentList();
    auto simulator = components->find("Simulator");
    if (simulator != components->end())
        simulator->second->Enable(LOG_LEVEL_ALL);
    std::ostringstream said;
    auto screen = std::clog.rdbuf(said.rdbuf());
    Simulator::Destroy();
    std::clog.rdbuf(screen);
    return !said.str().empty();
}

} // namespace

int main() {
    double start_s = CpuSeconds();
    Fabric fabric;
    for (std::string line; std::getline(std::cin, line);)
        fabric.Read(line);
    double ready_s = CpuSeconds();
    Simulator::Run();
    double end_s = CpuSeconds();
    std::cout << "received " << g_received << "\nhops " << g_hops << "\nset_up_s "
              << ready_s - start_s << "\ntook_s " << end_s - ready_s << "\nmemory_mb "
              << ResidentMb() << "\nhas_log " << DestroyWithLog() << std::endl;
}
