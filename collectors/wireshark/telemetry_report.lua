-- Wireshark dissector of Telemetry Reports 2.0 and 1.0 (Telemetry Report Format Specification of
-- p4lang/p4-applications; numbers are its sections). Load int.lua before this file:
--   tshark -X lua_script:int.lua -X lua_script:telemetry_report.lua -o int.port:5000 -r capture.pcap -V
-- Or copy both files to a folder of plugins (Help, About Wireshark, Folders).

local report = Proto("treport", "Telemetry Report")
local shared = _G.inband_telemetry
local int, number, flag, add, all_of = shared.proto, shared.number, shared.flag, shared.add, shared.all_of
local metadata, baseline_length, add_baseline = shared.metadata, shared.baseline_length, shared.add_baseline
local dissect_int, says_int = shared.dissect_int, shared.says_int

report.prefs.port = Pref.uint("UDP port", 32766, "Destination port of reports; 0: none")

local report_types = { [0] = "Inner only", [1] = "INT", [2] = "IOAM" }
local inner_types = {
  [0] = "None", [1] = "TLV", [2] = "Domain specific extension data",
  [3] = "Ethernet", [4] = "IPv4", [5] = "IPv6",
}
local tlv_types = { [0] = "Domain specific extension data", [1] = "Ethernet", [2] = "IPv4", [3] = "IPv6" }

local group_fields = { -- Telemetry Report 2.0, 3.2
  { number("treport.version", "Version", 1, 0xf0), 0, 1 },
  { number("treport.hw_id", "Hardware ID", 2, 0x0fc0), 0, 2 },
  { number("treport.sequence", "Sequence number", 4, 0x003fffff), 0, 4 },
  { number("treport.node", "Node ID", 4), 4, 4 },
}
local individual_fields = { -- 3.3
  { number("treport.type", "Report type", 1, 0xf0, report_types), 0, 1 },
  { number("treport.inner_type", "Inner type", 1, 0x0f, inner_types), 0, 1 },
  { number("treport.length", "Report length", 1), 1, 1 },
  { number("treport.md_length", "Metadata length", 1), 2, 1 },
  { flag("treport.dropped", "Dropped", 1, 0x80), 3, 1 },
  { flag("treport.congested", "Congested queue", 1, 0x40), 3, 1 },
  { flag("treport.tracked", "Tracked flow", 1, 0x20), 3, 1 },
  { flag("treport.intermediate", "Intermediate report", 1, 0x10), 3, 1 },
}
local main_fields = { -- 3.3.1
  { number("treport.bits", "Report metadata bits", 2, nil, nil, true), 0, 2 },
  { number("treport.domain", "Domain specific ID", 2), 2, 2 },
  { number("treport.ds_bits", "Domain specific metadata bits", 2, nil, nil, true), 4, 2 },
  { number("treport.ds_status", "Domain specific metadata status", 2, nil, nil, true), 6, 2 },
}
local ioam_types = {
  [0] = "Pre-allocated trace", [1] = "Incremental trace", [2] = "Proof of transit", [3] = "Edge-to-edge",
  [4] = "Direct export",
}
local ioam_fields = { -- reports of IOAM nodes: collectors/ioam/options.py
  { number("treport.ioam.namespace", "Namespace ID", 2), 0, 2 },
  { number("treport.ioam.type", "IOAM option type", 1, nil, ioam_types), 3, 1 },
  { number("treport.ioam.trace_type", "Trace type", 3, nil, nil, true), 4, 3 },
}
local ioam_data_field = ProtoField.bytes("treport.ioam.data", "Node data")
local drop_fields = {
  { number("treport.drop_queue", "Queue ID of the drop", 1), 0, 1 },
  { number("treport.drop_reason", "Drop reason", 1), 1, 1 },
}
local tlv_fields = { -- 3.3.2
  { number("treport.tlv.type", "Type", 1, 0xf0, tlv_types), 0, 1 },
  { number("treport.tlv.length", "Length", 1), 1, 1 },
  { number("treport.tlv.template", "Data template", 2), 2, 2 },
}
local old_fields = { -- Telemetry Report 1.0, "Telemetry Report Header"
  { number("treport.v1.version", "Version", 4, 0xf0000000), 0, 4 },
  { number("treport.v1.length", "Length", 4, 0x0f000000), 0, 4 },
  { number("treport.v1.next", "Next protocol", 4, 0x00e00000), 0, 4 },
  { number("treport.v1.bits", "Report metadata bits", 4, 0x001f8000, nil, true), 0, 4 },
  { flag("treport.v1.dropped", "Dropped", 4, 0x00000100), 0, 4 },
  { flag("treport.v1.congested", "Congested queue", 4, 0x00000080), 0, 4 },
  { flag("treport.v1.tracked", "Tracked flow", 4, 0x00000040), 0, 4 },
  { number("treport.v1.hw_id", "Hardware ID", 4, 0x0000003f), 0, 4 },
  { number("treport.v1.node", "Switch id", 4), 4, 4 },
  { number("treport.v1.sequence", "Sequence number", 4), 8, 4 },
}
local packet_fields = {
  { ProtoField.ipv4("treport.packet.src", "Source"), 12, 4 },
  { ProtoField.ipv4("treport.packet.dst", "Destination"), 16, 4 },
  { number("treport.packet.dscp", "DSCP", 1, 0xfc), 1, 1 },
  { number("treport.packet.ttl", "Time to live", 1), 8, 1 },
  { number("treport.packet.protocol", "Protocol", 1), 9, 1 },
}
local packet6_fields = {
  { ProtoField.ipv6("treport.packet.src6", "Source"), 8, 16 },
  { ProtoField.ipv6("treport.packet.dst6", "Destination"), 24, 16 },
  { number("treport.packet.dscp6", "DSCP", 2, 0x0fc0), 0, 2 },
  { number("treport.packet.hop_limit", "Hop limit", 1), 7, 1 },
  { number("treport.packet.next", "Next header", 1), 6, 1 },
}
local port_fields = {
  { number("treport.packet.sport", "Source port", 2), 0, 2 },
  { number("treport.packet.dport", "Destination port", 2), 2, 2 },
}

local individual_field = ProtoField.none("treport.report", "Individual report")
local packet_field = ProtoField.none("treport.packet", "Packet")
local tlv_field = ProtoField.none("treport.tlv", "TLV")
local extension_field = ProtoField.bytes("treport.extension", "Domain specific extension data")
local report_ds_field = ProtoField.bytes("treport.ds", "Domain specific metadata")
local old_metadata = { -- Telemetry Report 1.0: bits of RepMdBits in order, 4 bytes each
  metadata[1], metadata[2], metadata[3],
  { { number("int.md.egress_time32", "Egress timestamp", 4), 0, 4 } }, drop_fields, metadata[7],
}
local old_ingress = { number("int.md.ingress_time32", "Ingress timestamp (ns)", 4), 12, 4 }


local malformed = ProtoExpert.new("treport.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)

report.fields = all_of(
  { individual_field, packet_field, tlv_field, extension_field, report_ds_field, old_ingress[1],
    old_metadata[4][1][1], ioam_data_field },
  group_fields, individual_fields, main_fields, ioam_fields, drop_fields, tlv_fields, old_fields, packet_fields,
  packet6_fields, port_fields)
report.experts = { malformed }

-- Packets in reports ------------------------------------------------------------------------------

-- Dissects the ports, and INT if there is any. `dscp` is the DSCP of the packet.
local function dissect_transport(tvb, at, protocol, tree, dscp, tracked)
  if protocol ~= 6 and protocol ~= 17 and protocol ~= 132 then
    return
  elseif at + 4 > tvb:len() then
    tree:add_proto_expert_info(malformed, "The packet is truncated before its ports")
    return
  end
  add(tree, port_fields, tvb, at)
  local by_port = protocol == 17 and int.prefs.port > 0 and tvb(at + 2, 2):uint() == int.prefs.port
  local payload = at + 8
  if protocol == 6 then
    if at + 20 > tvb:len() then
      return
    end
    payload = at + 4 * tvb(at + 12, 1):bitfield(0, 4)
  end
  if protocol == 132 or not tracked or payload >= tvb:len() or not (by_port or says_int(tvb, payload, dscp)) then
    return  -- 3.4: without the F bit, the packet contains no metadata, and may be truncated
  end
  local going_on = dissect_int(tvb, payload, tree, by_port)
  if going_on and going_on.protocol and going_on.at < tvb:len() then
    dissect_transport(tvb, going_on.at, going_on.protocol, tree, dscp, false)
  end
end

-- Skips the extension headers of IPv6 (RFC 8200, 4). Returns the protocol and the offset of the
-- next header. Returns nil for a fragment that is not the first.
local function skip_extensions(tvb, protocol, at, tree)
  while protocol == 0 or protocol == 43 or protocol == 44 or protocol == 60 do
    if at + 8 > tvb:len() then
      tree:add_proto_expert_info(malformed, "The packet is truncated in its extension headers")
      return nil
    end
    local length = protocol == 44 and 8 or 8 + 8 * tvb(at + 1, 1):uint()
    if protocol == 44 and tvb(at + 2, 2):bitfield(0, 13) ~= 0 then
      return nil
    end
    protocol, at = tvb(at, 1):uint(), at + length
  end
  return protocol, at
end

local function dissect_ip(tvb, at, version, tree, tracked)
  if at + (version == 4 and 20 or 40) > tvb:len() or tvb(at, 1):bitfield(0, 4) ~= version then
    tree:add_proto_expert_info(malformed, "Invalid header of IPv" .. version)
    return
  end
  if version == 4 then
    if tvb(at, 1):bitfield(4, 4) < 5 then
      tree:add_proto_expert_info(malformed, "Header length is less than 20 bytes")
      return
    end
    add(tree, packet_fields, tvb, at)
    local above = at + 4 * tvb(at, 1):bitfield(4, 4)
    if tvb(at + 6, 2):bitfield(3, 13) == 0 then
      dissect_transport(tvb, above, tvb(at + 9, 1):uint(), tree, tvb(at + 1, 1):bitfield(0, 6), tracked)
    end
    return
  end
  add(tree, packet6_fields, tvb, at)
  local protocol, above = skip_extensions(tvb, tvb(at + 6, 1):uint(), at + 40, tree)
  if protocol then
    dissect_transport(tvb, above, protocol, tree, tvb(at, 2):bitfield(4, 6), tracked)
  end
end

-- Dissects a packet. `kind` is an InType: 3 Ethernet, 4 IPv4, 5 IPv6.
local function dissect_packet(tvb, kind, tree, tracked)
  local branch = tree:add(packet_field, tvb:range()):set_text("Packet: " .. inner_types[kind])
  if kind ~= 3 then
    dissect_ip(tvb, 0, kind == 4 and 4 or 6, branch, tracked)
    return
  end
  local at = 12
  for _ = 1, 2 do -- VLAN tags
    if at + 2 <= tvb:len() and (tvb(at, 2):uint() == 0x8100 or tvb(at, 2):uint() == 0x88a8) then
      at = at + 4
    end
  end
  if at + 2 > tvb:len() then
    branch:add_proto_expert_info(malformed, "Too short for an Ethernet header")
    return
  end
  local version = ({ [0x0800] = 4, [0x86dd] = 6 })[tvb(at, 2):uint()]
  if version then
    dissect_ip(tvb, at + 2, version, branch, tracked)
  end
end

-- Telemetry Reports -------------------------------------------------------------------------------

local function dissect_tlvs(tvb, tree, tracked)
  local at = 0
  while at < tvb:len() do
    local length = at + 4 <= tvb:len() and 4 * tvb(at + 1, 1):uint()
    if not length or at + 4 + length > tvb:len() then
      tree:add_proto_expert_info(malformed, "A TLV extends past the report")
      return
    end
    local branch, kind = tree:add(tlv_field, tvb:range(at, 4 + length)), tvb(at, 1):bitfield(0, 4)
    add(branch, tlv_fields, tvb, at)
    if kind == 0 and length > 0 then
      branch:add(extension_field, tvb:range(at + 4, length))
    elseif kind >= 1 and kind <= 3 and length > 0 then
      dissect_packet(tvb:range(at + 4, length):tvb(), kind + 2, branch, tracked)
    end
    at = at + 4 + length
  end
end

local function dissect_inner(tvb, kind, tree, tracked)
  if kind == 1 then
    dissect_tlvs(tvb, tree, tracked)
  elseif kind == 2 then
    tree:add(extension_field, tvb:range())
  elseif kind >= 3 and kind <= 5 then
    dissect_packet(tvb, kind, tree, tracked)
  elseif kind > 5 then
    tree:add_proto_expert_info(malformed, "Reserved inner type")
  end
end

-- Dissects the main contents of a report of type 1. Returns the offset of the packet, or nothing.
local function dissect_main(tvb, at, past, md_length, tree)
  if at + 8 + md_length > past then
    tree:add_proto_expert_info(malformed, "MD Length extends past the report")
    return nil
  end
  local bitmap, has_ds = tvb:range(at, 2), tvb(at + 4, 2):uint() ~= 0
  local baseline = baseline_length(bitmap, 0) + 4 * bitmap:bitfield(15, 1)
  add(tree, main_fields, tvb, at)
  if md_length < baseline or (md_length > baseline and not has_ds) then
    tree:add_proto_expert_info(malformed, "MD Length differs from the length of the metadata in the bitmap")
    return nil
  end
  local next = at + 8 + 4 * bitmap:bitfield(0, 1) -- bit 0 is reserved here
  next = add_baseline(tree, bitmap, 1, tvb, next)
  if bitmap:bitfield(15, 1) == 1 then
    add(tree, drop_fields, tvb, next)
    next = next + 4
  end
  if md_length > baseline then
    tree:add(report_ds_field, tvb:range(next, md_length - baseline))
  end
  return at + 8 + md_length
end

-- Dissects the main contents of a report of type 2. Returns the offset of the packet, or nothing.
local function dissect_ioam(tvb, at, past, md_length, tree)
  if at + 8 + md_length > past then
    tree:add_proto_expert_info(malformed, "MD Length extends past the report")
    return nil
  end
  add(tree, ioam_fields, tvb, at)
  local kind, length = tvb:range(at + 4, 3), 0
  for bit = 0, 21 do
    length = length + 4 * kind:bitfield(bit, 1) * ((bit >= 8 and bit <= 10) and 2 or 1)
  end
  if kind:bitfield(22, 1) == 1 then
    length = length + 4 + (length < md_length and 4 * tvb(at + 8 + length, 1):uint() or 0)
  end
  if length ~= md_length then
    tree:add_proto_expert_info(malformed, "MD Length differs from the length of the node data in the trace type")
    return nil
  elseif length > 0 then
    tree:add(ioam_data_field, tvb:range(at + 8, length))
  end
  if tvb(at - 4, 1):bitfield(4, 4) ~= 5 then
    tree:add_proto_expert_info(malformed, "The packet of an IOAM report is IPv6")
  end
  return at + 8 + md_length
end

-- Dissects the individual report at `at`. Returns the offset of the next report, or nothing.
local function dissect_individual(tvb, at, tree)
  local length = at + 4 <= tvb:len() and 4 * tvb(at + 1, 1):uint()
  if not length or at + 4 + length > tvb:len() then
    tree:add_proto_expert_info(malformed, "A report extends past the end of the datagram")
    return nil
  end
  local past = length == 4 * 0xff and tvb:len() or at + 4 + length -- 0xff means: up to the end
  local branch = tree:add(individual_field, tvb:range(at, past - at))
  add(branch, individual_fields, tvb, at)
  local kind, tracked = tvb(at, 1):bitfield(0, 4), tvb(at + 3, 1):bitfield(2, 1) == 1
  local inner = at + 4
  if kind == 1 then
    inner = dissect_main(tvb, inner, past, 4 * tvb(at + 2, 1):uint(), branch)
  elseif kind == 2 then
    inner = dissect_ioam(tvb, inner, past, 4 * tvb(at + 2, 1):uint(), branch)
  elseif kind ~= 0 then
    branch:add_proto_expert_info(malformed, "Report type without a defined format")
    inner = nil
  end
  if inner and inner < past then
    dissect_inner(tvb:range(inner, past - inner):tvb(), tvb(at, 1):bitfield(4, 4), branch, tracked)
  end
  return past
end

local function dissect_version1(tvb, tree)
  local length = tvb:len() >= 16 and 4 * tvb(0, 1):bitfield(4, 4)
  if not length or length > tvb:len() then
    tree:add_proto_expert_info(malformed, "Too short for the header")
    return
  end
  local next, at, past = tvb(1, 1):bitfield(0, 3), 16, 16
  for bit = 1, 6 do
    past = past + 4 * tvb(0, 4):bitfield(10 + bit, 1)
  end
  if past ~= length then
    tree:add_proto_expert_info(malformed, "Length differs from the length of the metadata in the bitmap")
    return
  end
  add(tree, old_fields, tvb, 0)
  add(tree, { old_ingress }, tvb, 0)
  for bit = 1, 6 do
    if tvb(0, 4):bitfield(10 + bit, 1) == 1 then
      add(tree, old_metadata[bit], tvb, at, bit ~= 5)
      at = at + 4
    end
  end
  if length < tvb:len() and next <= 2 then
    dissect_packet(tvb:range(length):tvb(), 3 + next, tree, tvb(3, 1):bitfield(1, 1) == 1)
  end
end

function report.dissector(tvb, pinfo, tree)
  local branch = tree:add(report, tvb:range())
  local version = tvb:len() >= 8 and tvb(0, 1):bitfield(0, 4)
  pinfo.cols.protocol = "Telemetry Report"
  if version == 1 then
    dissect_version1(tvb, branch)
  elseif version == 2 then
    local at = 8
    add(branch, group_fields, tvb, 0)
    if at == tvb:len() then
      branch:add_proto_expert_info(malformed, "No report")
    end
    while at and at < tvb:len() do
      at = dissect_individual(tvb, at, branch)
    end
  else
    branch:add_proto_expert_info(malformed, "Header version is neither 1 nor 2")
  end
end

function report.prefs_changed()
  shared.listen(report)
end

shared.listen(report)
