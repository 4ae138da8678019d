"""Names of TNA's intrinsic metadata in a program's JSON."""

TO_DEPARSER, TO_TM = "ig_intr_md_for_dprsr", "ig_intr_md_for_tm"
FROM_PARSER, FROM_EGRESS_PARSER = "ig_intr_md_from_prsr", "eg_intr_md_from_prsr"
TO_EGRESS_DEPARSER, TO_PORT = "eg_intr_md_for_dprsr", "eg_intr_md_for_oport"
TNA_METADATA = (TO_DEPARSER, TO_TM, FROM_PARSER, FROM_EGRESS_PARSER, TO_EGRESS_DEPARSER, TO_PORT)

# headers that the engine writes before a frame
INGRESS, EGRESS = "ig_intr_md", "eg_intr_md"
