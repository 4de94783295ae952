package hardwaretest

import (
	"fmt"
	"strings"
	"testing"
)

// MI300Xx8 is a machine with eight MI300X joined by XGMI. The kernel's files
// tell everything but their names and limits of power, which rocm-smi does.
func MI300Xx8(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := newMachine(tb, o)
	m.x86("AMD EPYC 9654 96-Core Processor", 2, 4, "avx avx2 avx512f avx512bw avx512_vnni avx512_bf16 fma f16c")
	m.memory(2304, 2, 16)
	m.Write("sys/module/amdgpu/version", "6.10.5")
	m.files("sys/class/kfd/kfd/topology/nodes/0", map[string]string{"properties": "cpu_cores_count 8\nsimd_count 0\ngfx_target_version 0\ndrm_render_minor 0"})
	var rocm strings.Builder
	rocm.WriteString("device,Device Name,VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Max Graphics Package Power (W),PCI Bus,Driver version\n")
	for i, bus := range []string{"05", "26", "46", "65", "85", "a6", "c6", "e5"} {
		address := "0000:" + bus + ":00.0"
		m.pci(address, []string{"0000:" + add(bus, -4) + ":01.1", "0000:" + add(bus, -3) + ":00.0"}, i/4, "0x120000", "0x1002")
		var number int
		_, _ = fmt.Sscanf(bus, "%x", &number)
		node := fmt.Sprintf("sys/class/kfd/kfd/topology/nodes/%d", i+1)
		m.Write(node+"/properties", fmt.Sprintf("simd_count 1216\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nunique_id %d", number<<8, 128+i, 1000+i))
		link := 0
		for j := range 8 {
			if j != i {
				m.Write(fmt.Sprintf("%s/io_links/%d/properties", node, link), fmt.Sprintf("type 11\nnode_from %d\nnode_to %d\nweight 15", i+1, j+1))
				link++
			}
		}
		card := fmt.Sprintf("sys/class/drm/card%d", i+1)
		m.link(card+"/device", "../../../devices/pci0000:"+add(bus, -4)+"/0000:"+add(bus, -4)+":01.1/0000:"+add(bus, -3)+":00.0/"+address)
		m.files(fmt.Sprintf("sys/devices/pci0000:%s/0000:%s:01.1/0000:%s:00.0/%s", add(bus, -4), add(bus, -4), add(bus, -3), address), map[string]string{
			"mem_info_vram_total": "206141652992", "mem_info_vram_used": "296648704", "gpu_busy_percent": "0",
			"unique_id": m.hex(fmt.Sprint("amd", i), 16), "hwmon/hwmon3/temp1_input": "38000", "hwmon/hwmon3/temp2_input": "44000",
			"ras/umc_err_count": "ue: 0\nce: 2",
		})
		fmt.Fprintf(&rocm, "card%d,N/A,206141652992,296648704,AMD Instinct MI300X OAM,750.0,%s,6.10.5\n", i, "0000:"+bus+":00.0")
	}
	m.Write("commands/rocm-smi/any", rocm.String())
	return m
}

// CPUOnly is a machine without cards.
func CPUOnly(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := newMachine(tb, o)
	m.x86("Intel(R) Xeon(R) Gold 6330", 1, 4, "fpu sse4_2 avx avx2 fma f16c avx512f avx512_vnni")
	m.memory(64, 1, 8)
	return m
}

// CPUWithoutAVX2 is a virtual machine whose processor is a generic one.
func CPUWithoutAVX2(tb testing.TB, o Options) *Machine {
	tb.Helper()
	m := newMachine(tb, o)
	m.x86("Common KVM processor", 1, 2, "fpu sse2 cx16 hypervisor")
	m.memory(16, 1, 4)
	return m
}
