// Package smi reads what nvidia-smi and rocm-smi print. It runs neither.
package smi
