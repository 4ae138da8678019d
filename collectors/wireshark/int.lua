-- Wireshark dissector of INT 2.1 and 1.0 over TCP and UDP (INT Dataplane Specification of
-- p4lang/p4-applications).
--
-- telemetry_report.lua uses this dissector for packets in Telemetry Reports.

local int = Proto("int", "In-band Network Telemetry")

int.prefs.port = Pref.uint("UDP port", 0, "Destination port that indicates INT; 0: none")
int.prefs.dscp = Pref.uint("DSCP", 0, "DSCP that indicates INT after TCP or UDP")
int.prefs.dscp_mask = Pref.uint("DSCP mask", 0, "Mask of the compared DSCP bits; 0: the DSCP does not indicate INT")
int.prefs.marker = Pref.string("Probe marker", "",
  "Probe marker after TCP or UDP that indicates INT, as 16 hexadecimal digits; empty: none")

local header_types = { [1] = "INT-MD", [2] = "Destination", [3] = "INT-MX" }
-- Fields of headers: offset and length in bytes, and mask. ----------------------------------------

local function number(abbreviation, name, bytes, mask, values, hexadecimal)
  local kind = ({ ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32 })[bytes]
  return kind(abbreviation, name, hexadecimal and base.HEX or base.DEC, values, mask)
end

local function flag(abbreviation, name, bytes, mask)
  return ProtoField.bool(abbreviation, name, 8 * bytes, nil, mask)
end

local marker_field = ProtoField.bytes("int.marker", "Probe marker")
local shim_fields = { -- INT 2.1, "INT over TCP/UDP"
  { number("int.shim.type", "Type", 1, 0xf0, header_types), 0, 1 },
  { number("int.shim.npt", "Next protocol type", 1, 0x0c), 0, 1 },
  { number("int.shim.length", "Length", 1), 1, 1 },
}
local shim_next = { -- by NPT
  [0] = { number("int.shim.dscp", "Original DSCP", 1, 0xfc), 3, 1 },
  [1] = { number("int.shim.port", "Original UDP port", 2), 2, 2 },
  [2] = { number("int.shim.protocol", "Original IP protocol", 1), 3, 1 },
}
local version_field = { number("int.version", "Version", 1, 0xf0), 0, 1 }
local bits_field = { number("int.bits", "Instruction bitmap", 2, nil, nil, true), 4, 2 }
local common_fields = { -- fields that INT-MD and INT-MX have in common
  version_field, bits_field,
  { flag("int.discard", "Discard", 1, 0x08), 0, 1 },
  { number("int.domain", "Domain specific ID", 2), 6, 2 },
  { number("int.ds_bits", "Domain specific instruction", 2, nil, nil, true), 8, 2 },
  { number("int.ds_flags", "Domain specific flags", 2, nil, nil, true), 10, 2 },
}
local hop_fields = {
  { number("int.hop_length", "Hop ML", 1, 0x1f), 2, 1 },
  { number("int.remaining", "Remaining hop count", 1), 3, 1 },
}
local md_fields = {
  { flag("int.exceeded", "Max hop count exceeded", 1, 0x04), 0, 1 },
  { flag("int.mtu", "MTU exceeded", 1, 0x02), 0, 1 },
}
local old_shim_fields = { -- INT 1.0, "INT over TCP/UDP": the type has 8 bits, and the length includes the shim
  { number("int.v1.shim.type", "Type", 1, nil, { [1] = "Hop-by-hop", [2] = "Destination" }), 0, 1 },
  { number("int.v1.shim.length", "Length", 1), 2, 1 },
  shim_next[0],
}
local old_fields = { -- INT 1.0, "INT Hop-by-Hop Metadata Header Format"
  version_field, bits_field,
  { number("int.v1.replication", "Replication requested", 1, 0x0c), 0, 1 },
  { flag("int.v1.copy", "Copy", 1, 0x02), 0, 1 },
  { flag("int.v1.exceeded", "Max hop count exceeded", 1, 0x01), 0, 1 },
  { flag("int.v1.mtu", "MTU exceeded", 1, 0x80), 1, 1 },
}
-- Metadata by bit of a bitmap, bit 0 first (INT 2.1, "INT-MD Metadata Header Format"). ------------

local metadata = {
  [0] = { { number("int.md.node", "Node ID", 4), 0, 4 } },
  { { number("int.md.ingress", "Level 1 ingress interface", 2), 0, 2 },
    { number("int.md.egress", "Level 1 egress interface", 2), 2, 2 } },
  { { number("int.md.latency", "Hop latency", 4), 0, 4 } },
  { { number("int.md.queue", "Queue ID", 1), 0, 1 },
    { number("int.md.occupancy", "Queue occupancy", 3), 1, 3 } },
  { { ProtoField.uint64("int.md.ingress_time", "Ingress timestamp"), 0, 8 } },
  { { ProtoField.uint64("int.md.egress_time", "Egress timestamp"), 0, 8 } },
  { { number("int.md.ingress2", "Level 2 ingress interface", 4), 0, 4 },
    { number("int.md.egress2", "Level 2 egress interface", 4), 4, 4 } },
  { { number("int.md.utilisation", "Egress TX utilisation", 4), 0, 4 } },
  { { number("int.md.buffer", "Buffer ID", 1), 0, 1 },
    { number("int.md.buffer_occupancy", "Buffer occupancy", 3), 1, 3 } },
}
local old_times = { -- in INT 1.0
  [4] = { { number("int.md.ingress_time32", "Ingress timestamp", 4), 0, 4 } },
  [5] = { { number("int.md.egress_time32", "Egress timestamp", 4), 0, 4 } },
}
local reserved = { { number("int.md.reserved", "Reserved metadata", 4, nil, nil, true), 0, 4 } }
local complement = { { number("int.md.complement", "Checksum complement", 4, nil, nil, true), 0, 4 } }
local ds_field = ProtoField.bytes("int.md.ds", "Domain specific metadata")
local own_field = ProtoField.bytes("int.source_only", "Metadata inserted only by the source")
local hop_field = ProtoField.none("int.hop", "Hop")
local group, severity = expert.group, expert.severity
local missing = ProtoExpert.new("int.unavailable", "Not available", group.COMMENTS_GROUP, severity.CHAT)
local wrong = ProtoExpert.new("int.malformed", "Malformed", group.MALFORMED, severity.ERROR)
local cut = ProtoExpert.new("int.cut", "Truncated: older hops are missing", group.MALFORMED, severity.NOTE)

local function all_of(singles, ...)
  for _, list in ipairs({ ... }) do
    for _, each in ipairs(list) do
      singles[#singles + 1] = each[1]
    end
  end
  return singles
end

int.fields = all_of(
  { marker_field, hop_field, ds_field, own_field, shim_next[0][1], shim_next[1][1], shim_next[2][1], metadata[0][1][1] },
  shim_fields, common_fields, md_fields, hop_fields, { old_shim_fields[1], old_shim_fields[2] },
  { table.unpack(old_fields, 3) }, old_times[4], old_times[5], reserved, complement, table.unpack(metadata))
int.experts = { missing, wrong, cut }

-- Adds the fields of a header at `at` to a tree. A field whose bits are all ones may be
-- unavailable.
local function add(tree, fields, tvb, at, may_be_missing)
  local is_missing = may_be_missing
  for _, each in ipairs(fields) do
    local range = tvb:range(at + each[2], each[3])
    local item = tree:add(each[1], range)
    is_missing = is_missing and not range:bytes():tohex():upper():find("[^F]") and item
  end
  if is_missing then
    is_missing:add_proto_expert_info(missing)
  end
end

-- Returns the fields of the metadata for a bit (nil: reserved), and the length of these metadata.
-- In INT 1.0, times have 4 bytes, and there is no buffer occupancy.
local function metadata_of(bit, is_old)
  if is_old and bit == 8 then
    return nil, 4
  end
  local is_long = bit == 6 or (not is_old and (bit == 4 or bit == 5))
  return is_old and old_times[bit] or metadata[bit], is_long and 8 or 4
end

-- Returns how many bytes the baseline metadata have, for bits `first` to 14 of a bitmap.
local function baseline_length(bitmap, first, is_old)
  local sum = 0
  for bit = first, 14 do
    local _, length = metadata_of(bit, is_old)
    sum = sum + bitmap:bitfield(bit, 1) * length
  end
  return sum
end

-- Adds baseline metadata in the order of the bits. Returns the offset of their end.
local function add_baseline(tree, bitmap, first, tvb, at, is_old)
  for bit = first, 14 do
    if bitmap:bitfield(bit, 1) == 1 then
      local fields, length = metadata_of(bit, is_old)
      add(tree, fields or reserved, tvb, at, fields ~= nil)
      at = at + length
    end
  end
  return at
end

-- INT after TCP or UDP ----------------------------------------------------------------------------

local function add_hop(tree, tvb, at, stack, label)
  local has_complement = stack.bitmap:bitfield(15, 1)
  local hop = tree:add(hop_field, tvb:range(at, stack.hop_length)):set_text(label)
  local past = add_baseline(hop, stack.bitmap, 0, tvb, at, stack.is_old)
  local end_of_ds = at + stack.hop_length - 4 * has_complement
  if end_of_ds > past then
    hop:add(ds_field, tvb:range(past, end_of_ds - past))
  end
  if has_complement == 1 then
    add(hop, complement, tvb, end_of_ds, true)
  end
end

-- Dissects a stack. The newest hop is first; metadata that only the source inserts are last.
-- `stack` has the fields offset (at), length, hop length and bitmap. has_ds is true if there are
-- domain specific metadata. is_old is true for INT 1.0.
local function add_stack(tree, tvb, stack)
  local baseline = baseline_length(stack.bitmap, 0, stack.is_old) + 4 * stack.bitmap:bitfield(15, 1)
  if stack.hop_length < baseline or (stack.hop_length > baseline and not stack.has_ds) then
    tree:add_proto_expert_info(wrong, "Hop ML differs from the length of the metadata in the bitmap")
    return
  end
  local hops = stack.hop_length > 0 and math.floor(stack.length / stack.hop_length) or 0
  local at, over = stack.at, stack.length - hops * stack.hop_length
  if over > 0 and not stack.has_ds then
    tree:add_proto_expert_info(wrong, "The stack length is not a multiple of the hop length")
    return
  end
  for number = 1, hops do
    if at + stack.hop_length > tvb:len() then
      break
    end
    add_hop(tree, tvb, at, stack, string.format("Hop %d of %d", hops - number + 1, hops))
    at = at + stack.hop_length
  end
  if over > 0 and at + over <= tvb:len() then
    tree:add(own_field, tvb:range(at, over))
  end
end

-- Returns whether there is a header of this size and version within `length` bytes.
local function has_header(tvb, at, length, bytes, version, tree)
  if length < bytes then
    tree:add_proto_expert_info(wrong, "Too short for a header")
  elseif at + bytes > tvb:len() then
    tree:add_proto_expert_info(cut)
  elseif tvb(at, 1):bitfield(0, 4) ~= version then
    tree:add_proto_expert_info(wrong, "Not version " .. version)
  else
    return true
  end
  return false
end

local function hop_length(tvb, at)
  return 4 * tvb(at + 2, 1):bitfield(3, 5)
end

-- Dissects an INT header and its stack, which have `length` bytes together. `kind` is the type in
-- the shim.
local function dissect_header(tvb, at, length, kind, tree)
  if not has_header(tvb, at, length, 12, 2, tree) then
    return
  end
  local bitmap, has_ds = tvb:range(at + 4, 2), tvb(at + 8, 2):uint() ~= 0
  add(tree, common_fields, tvb, at)
  if kind == 1 then
    add(tree, md_fields, tvb, at)
    add(tree, hop_fields, tvb, at)
    add_stack(tree, tvb, {
      at = at + 12, length = length - 12, bitmap = bitmap, hop_length = hop_length(tvb, at), has_ds = has_ds })
  elseif length > 12 and not has_ds then
    tree:add_proto_expert_info(wrong, "Data after the header, but no domain specific instruction")
  elseif length > 12 and at + length <= tvb:len() then
    tree:add(own_field, tvb:range(at + 12, length - 12))
  end
  if at + length > tvb:len() then
    tree:add_proto_expert_info(cut)
  end
end

-- Dissects the shim and the header of INT 1.0. The results are the same as those of dissect_int().
local function dissect_old(tvb, at, tree)
  local length = 4 * tvb(at + 2, 1):uint() - 4
  add(tree, old_shim_fields, tvb, at)
  if length < 0 then
    tree:add_proto_expert_info(wrong, "The length does not include the shim")
    return nil
  elseif tvb(at, 1):uint() == 1 and has_header(tvb, at + 4, length, 8, 1, tree) then
    add(tree, old_fields, tvb, at + 4)
    add(tree, hop_fields, tvb, at + 4)
    add_stack(tree, tvb, {
      at = at + 12, length = length - 8, bitmap = tvb:range(at + 8, 2), hop_length = hop_length(tvb, at + 4),
      is_old = true })
    if at + 4 + length > tvb:len() then
      tree:add_proto_expert_info(cut)
    end
  end
  return { at = at + 4 + length }
end

-- Returns whether a probe marker is at `at` (INT 2.1, "INT over TCP/UDP").
local function has_marker(tvb, at)
  return at + 8 <= tvb:len() and tvb:range(at, 8):bytes():tohex():lower() == int.prefs.marker:lower()
end

-- Dissects a probe marker, a shim and an INT header. Returns the offset of the rest of the packet,
-- and the original port or protocol. Returns nothing if there is no INT.
local function dissect_int(tvb, at, tree, by_port)
  local shim = not by_port and has_marker(tvb, at) and at + 8 or at
  if shim + 4 > tvb:len() then
    tree:add_proto_expert_info(cut)
    return nil
  end
  local kind, npt = tvb(shim, 1):bitfield(0, 4), tvb(shim, 1):bitfield(4, 2)
  -- since version 2.0, the type is the upper half
  local is_old = not by_port and (tvb(shim, 1):uint() == 1 or tvb(shim, 1):uint() == 2)
  local header, length = shim + 4, 4 * tvb(shim + 1, 1):uint()
  local past = is_old and shim + math.max(4, 4 * tvb(shim + 2, 1):uint()) or header + length
  local branch = tree:add(int, tvb:range(at, math.min(past, tvb:len()) - at))
  if shim > at then
    branch:add(marker_field, tvb:range(at, 8))
  end
  if is_old then
    return dissect_old(tvb, shim, branch)
  end
  add(branch, shim_fields, tvb, shim)
  if not header_types[kind] or (by_port and npt ~= 1 and npt ~= 2) or (not by_port and npt ~= 0) then
    branch:add_proto_expert_info(wrong, "Invalid type or NPT")
    return nil
  end
  add(branch, { shim_next[npt] }, tvb, shim)
  if kind ~= 2 then  -- the format of type 2 is not defined
    dissect_header(tvb, header, length, kind, branch)
  end
  return {
    at = header + length,
    port = npt == 1 and tvb(shim + 2, 2):uint() or nil,
    protocol = npt == 2 and tvb(shim + 3, 1):uint() or nil,
  }
end

local within  -- number of the packet whose rest Wireshark dissects now

-- Dissects INT in a packet from a link. Wireshark dissects the rest of the packet. INT in this rest
-- is not dissected, because deep nesting could exhaust the call stack.
function int.dissector(tvb, pinfo, tree)
  if within == pinfo.number then
    Dissector.get("data"):call(tvb, pinfo, tree)
    return
  end
  local by_port = pinfo.port_type == 3 and pinfo.dst_port == int.prefs.port
  local going_on = dissect_int(tvb, 0, tree, by_port)
  pinfo.cols.protocol = "INT"
  if not going_on or going_on.at >= tvb:len() then
    return
  end
  local rest = tvb:range(going_on.at):tvb()
  within = pinfo.number
  if going_on.protocol then
    DissectorTable.get("ip.proto"):try(going_on.protocol, rest, pinfo, tree)
  elseif going_on.port then
    DissectorTable.get("udp.port"):try(going_on.port, rest, pinfo, tree)
  else
    Dissector.get("data"):call(rest, pinfo, tree)
  end
  within = nil
end

local dscp_of_ipv4, dscp_of_ipv6 = Field.new("ip.dsfield.dscp"), Field.new("ipv6.tclass.dscp")

-- Returns whether a DSCP, under the mask, indicates INT.
local function dscp_says_int(dscp)
  local mask, wanted = int.prefs.dscp_mask, int.prefs.dscp
  for shift = 0, 5 do
    local bit = 2 ^ shift
    local counts = math.floor(mask / bit) % 2 == 1
    if counts and math.floor(dscp / bit) % 2 ~= math.floor(wanted / bit) % 2 then
      return false
    end
  end
  return mask > 0
end

-- Returns whether INT follows TCP or UDP. The payload begins at `at`. `dscp` is the DSCP of the
-- packet.
local function says_int(tvb, at, dscp)
  return has_marker(tvb, at) or dscp_says_int(dscp)
end

local function is_int(tvb, pinfo, tree)
  local found = dscp_of_ipv4() or dscp_of_ipv6()
  if not found or not says_int(tvb, 0, found.value) then
    return false
  end
  int.dissector(tvb, pinfo, tree)
  return true
end

int:register_heuristic("udp", is_int)
int:register_heuristic("tcp", is_int)

-- The port, and the port before the preferences changed.
local ports = {}

local function listen(proto)
  local table_of_ports = DissectorTable.get("udp.port")
  if ports[proto.name] then
    table_of_ports:remove(ports[proto.name], proto)
  end
  ports[proto.name] = proto.prefs.port > 0 and proto.prefs.port or nil
  if ports[proto.name] then
    table_of_ports:add(ports[proto.name], proto)
  end
end

function int.prefs_changed()
  listen(int)
  local marker = int.prefs.marker
  if marker ~= "" and not marker:match("^" .. ("%x"):rep(16) .. "$") then
    error("int.marker: '" .. marker .. "' is not a probe marker of 16 hexadecimal digits; no marker is used", 0)
  end
end

listen(int)

-- Functions that telemetry_report.lua uses.
_G.inband_telemetry = {
  proto = int, number = number, flag = flag, add = add, all_of = all_of, listen = listen,
  metadata = metadata, baseline_length = baseline_length, add_baseline = add_baseline,
  dissect_int = dissect_int, says_int = says_int,
}
